"""Without the extra `server` there is no server, and everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import understudy

pytestmark = pytest.mark.any_noise

EXTRA = (
    "fastapi", "starlette", "uvicorn", "itsdangerous", "prometheus_client", "python_multipart",
    "multipart", "authlib", "cryptography", "joserfc",
    "pyspark", "psycopg", "svy", "arviz",
)  # fmt: skip
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


RELEASE = """
import polars as pl, understudy as us
rows = {"sex": ["f", "m"] * 40, "area": ["n", "s", "s", "n"] * 20}
pl.DataFrame(rows).write_parquet("file.parquet")
levels = "".join(
    f'[columns.{name}]\\nrole = "sensitive"\\ntype = "categorical"\\nlevels = {values[:2]}\\n'
    for name, values in rows.items()
)
open("codebook.toml", "w").write(levels)
open("release.toml", "w").write(
    '[data]\\npath = "file.parquet"\\ncodebook = "codebook.toml"\\n[synthesis]\\n'
    'model = "Multinomial"\\nsensitive = ["sex", "area"]\\n[privacy]\\n'
    'mechanism = "Marginals"\\nepsilon = 2\\n[ledger]\\nplace = "ledger.db"\\ncap = "9"\\n'
)
from understudy.release import outside, publish  # the public files too without the extra
publish.run_outside = outside.make_public
out = us.publish("release.toml", say=lambda _: None)
print(us.tabulate(us.open_release(out), "count")["estimate"].to_list())
print([name for name in ("jax", "numpyro", "blackjax") if name in sys.modules])
"""


ROOMS = """
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_a_release_and_its_tables_are_made_without_it_and_all_other_rooms_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path(understudy.__file__).parent
    files = [file.relative_to(source).with_suffix("") for file in source.rglob("*.py")]
    rooms = [file for file in files if file.parts[0] not in ("web", "demo")]  # they serve
    assert len(rooms) > 250
    names = {".".join(("understudy", *file.parts)).removesuffix(".__init__") for file in rooms}
    done = without_the_extra(RELEASE + ROOMS, *sorted(names - {"understudy.survey.from_svy"}))
    # nor with a sampler's libraries, which take longer to load than these tables to make
    assert (done.stdout, done.stderr) == ("[80.0]\n[]\n", "")
    assert done.returncode == 0
