"""Without the extra `server` there is no server, and everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import understudy

pytestmark = pytest.mark.any_noise

EXTRA = ("fastapi", "starlette", "uvicorn", "itsdangerous", "python_multipart", "multipart")
WITHOUT = f"import sys; sys.modules |= dict.fromkeys({EXTRA!r}); "


def without_the_extra(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *words], capture_output=True, text=True, check=False
    )


def test_serve_says_what_to_install() -> None:
    run = "from understudy.cli.main import run; run()"
    done = without_the_extra(run, "serve", "server.toml")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        'understudy: The verification server needs more packages: pip install "understudy[server]".'
    )


def test_all_other_rooms_are_imported_without_it() -> None:
    source = Path(understudy.__file__).parent
    rooms = ("ledger", "release", "tables", "survey", "verify", "cli")
    files = [file for room in rooms for file in (source / room).rglob("*.py")]
    names = {
        "understudy." + ".".join(file.relative_to(source).with_suffix("").parts) for file in files
    }
    assert len(names) > 100
    listed = sorted(name.removesuffix(".__init__") for name in names)
    optional = ("from_svy",)
    code = "import importlib\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = without_the_extra(code, *(name for name in listed if not name.endswith(optional)))
    assert done.returncode == 0, done.stderr
