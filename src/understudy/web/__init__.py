"""The verification server's pages and API; it needs the extra `server`."""

from __future__ import annotations

from importlib.util import find_spec

from understudy.errors import Refused

NEEDED = (
    *("authlib", "cryptography", "fastapi", "itsdangerous", "prometheus_client"),
    *("python_multipart", "uvicorn"),
)

if not all(find_spec(name) for name in NEEDED):
    raise Refused('The verification server needs more packages: pip install "understudy[server]".')
