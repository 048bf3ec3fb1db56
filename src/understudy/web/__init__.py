"""The verification server's pages and API; it needs the extra `server`."""

from __future__ import annotations

from importlib.util import find_spec

from understudy.errors import Refused

if not all(
    find_spec(name)
    for name in ("cryptography", "fastapi", "itsdangerous", "python_multipart", "uvicorn")
):
    raise Refused('The verification server needs more packages: pip install "understudy[server]".')
