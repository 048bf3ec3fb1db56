"""The outside: every public file from the handed-out folder alone, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from cases import CASES
from releases import OWN, base, base_of, result_of

from understudy.errors import Refused
from understudy.release.outside import PUBLIC, RELEASED, files_in, make_public, run_outside
from understudy.survey.file_format import formats

CASE = next(case for case in CASES if str(case) == "BetaRegression-Censored")
WRITTEN = sorted(known.written[0].removeprefix(".") for known in formats() if known.written)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one release hands out, in every format that is written."""
    made = tmp_path_factory.mktemp("handed")
    listed = ", ".join(f'"{kind}"' for kind in WRITTEN if kind != "parquet")
    asked = f'"asked_formats": [{listed}]'.encode()
    files = base_of(CASE, ".parquet")
    write({name: c.replace(b'"asked_formats": []', asked) for name, c in files.items()}, made)
    return made


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """What was handed out, into a folder, with the steward's own model."""
    (folder / "mine.py").write_text(OWN, encoding="utf-8")
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.replace(b"FOLDER", str(folder).encode()))


OUTSIDE_ALONE = """
import sys
from pathlib import Path
from understudy.release.outside import make_public
seldom = {"pandas", "formulaic", "scipy.stats", "scipy.optimize", "matplotlib"}
print(*seldom & set(sys.modules))
make_public(Path(sys.argv[1]), Path(sys.argv[2]))
closed = ("fitting", "ledger", "synthesis", "audit", "influence", "verify")
inside = ("inside", "publish", "spending", "recipe", "check", "envelope", "mixed", "parts")
shut = {f"understudy.{room}" for room in closed} | {f"understudy.release.{n}" for n in inside}
shut |= {"understudy.survey.read", "understudy.mechanisms.contract", "blackjax"}
print(*[n for n in sys.modules if n in shut or n.startswith("understudy.fitting.")])
print("jax" if "jax" in sys.modules else "")
"""


def made_alone(handed_out: Path, out: Path) -> tuple[str, str, str]:
    """Public files in a process that does nothing else; of its modules those that it seldom needs
    and had loaded before it began, those of the inside at its end, and JAX if it was there."""
    asked = [sys.executable, "-c", OUTSIDE_ALONE, str(handed_out), str(out)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True, env={**os.environ})
    seldom, inside, jax = done.stdout.splitlines()
    return seldom, inside, jax


def same_bytes(out: Path, other: Path) -> list[str]:
    """The public files of one release, which must be those of the other."""
    public = files_in(out / PUBLIC)
    assert public == files_in(other / PUBLIC)
    for name in public:
        assert (out / PUBLIC / name).read_bytes() == (other / PUBLIC / name).read_bytes(), name
    return public


@pytest.mark.fixed_seed("another process, whose seeds are as written, makes the same bytes")
def test_the_same_envelope_gives_the_same_public_bytes(folder: Path, tmp_path: Path) -> None:
    """In another process or in this one, today or tomorrow; in every format. The other process has
    no sampler, no ledger and no reader, not even after all public files are made."""
    for name in ("another", "this"):
        (tmp_path / name).mkdir()
    loaded = made_alone(folder, tmp_path / "another")
    make_public(folder, tmp_path / "this")
    public = same_bytes(tmp_path / "another", tmp_path / "this")
    assert {f"synthetic/1.{kind}" for kind in WRITTEN} < set(public)
    assert loaded == ("", "", "jax")  # its model generates with JAX


def test_the_outside_ends_with_the_inside(folder: Path, tmp_path: Path) -> None:
    """The pipe that lives as long as the inside has ended: nothing is written any more."""
    command = [sys.executable, "-m", "understudy.release.outside", str(folder), str(tmp_path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False, capture_output=True)
    assert done.returncode == 1
    assert done.stderr == b""
    assert not (tmp_path / PUBLIC / "public.zip").exists()


# One of each output, and of each way to be given public columns.
NAMES = (
    "BetaRegression-Censored", "Beta-PerturbedHistogram", "BetaRegression-Unweighted",
    "FBS-Censored", "Mixture-Censored", "mine.py:shares-Censored", "Multinomial-Modips",
    "Multinomial-Marginals", "Multinomial-Modips-mixed", "WholeFile-Marginals",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_outside_makes_what_synthesize_makes(name: str, tmp_path: Path) -> None:
    """From the handed-out folder alone: the confidential file is gone by then."""
    case = next(case for case in CASES if str(case) == name)
    write(base_of(case, ".parquet"), tmp_path)
    (tmp_path / "out").mkdir()
    make_public(tmp_path, tmp_path / "out")
    public = tmp_path / "out" / PUBLIC
    made = [pl.read_parquet(public / f"synthetic/{number}.parquet") for number in (1, 2)]
    result = result_of(case, base())
    for frame, dataset in zip(made, result.datasets, strict=True):
        expected = dataset.raw.to_polars()
        assert frame.equals(expected.sort(expected.columns))
    rows = (tmp_path / "envelope" / "1.parquet").is_file()
    assert rows == (result.claim.kind == "risk")
    assert (public / "draws.json").is_file() != rows


def test_the_outside_has_no_sampler_no_ledger_and_no_reader(tmp_path: Path) -> None:
    """After all public files are made, and no JAX either where no model generates with it. Every
    release waits for this process to start: formulas and laws are loaded where used."""
    case = next(case for case in CASES if str(case) == "WholeFile-Marginals")
    write(base_of(case, ".parquet"), tmp_path)
    (tmp_path / "out").mkdir()
    assert made_alone(tmp_path, tmp_path / "out") == ("", "", "")


def test_what_the_outside_refuses_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    handed_out = shutil.copytree(folder, tmp_path / "handed")
    (handed_out / "envelope" / "records.csv").write_text("1,2,3")
    with pytest.raises(Refused, match="something that no claim covers; nothing is published"):
        run_outside(handed_out, tmp_path)


LOOKING = (
    OWN
    + """
import json
import os
from pathlib import Path

seen = {
    "variables": dict(os.environ),
    "folder": sorted(os.listdir()),
    "open": [str(file.resolve()) for file in Path("/proc/self/fd").iterdir()],
}
Path(__file__).with_name("seen.json").write_text(json.dumps(seen))
"""
)


@pytest.mark.fixed_seed("another process, whose seeds are as written, makes the same bytes")
def test_the_outside_starts_with_what_was_handed_out_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model file of the steward's own looks about: what is kept inside is not there, nor are
    passwords in the environment and files that the inside has open."""
    case = next(case for case in CASES if str(case) == "mine.py:shares-Censored")
    write(base_of(case, ".parquet"), tmp_path)
    (tmp_path / "mine.py").write_text(LOOKING, encoding="utf-8")
    (tmp_path / "kept").mkdir()
    monkeypatch.setenv("CONFIDENTIAL_DATABASE", "postgresql://steward:secret@inside")
    for name in ("out", "here"):
        (tmp_path / name).mkdir()
    with (tmp_path / "confidential.csv").open("w") as confidential:
        os.set_inheritable(confidential.fileno(), True)
        run_outside(tmp_path, tmp_path / "out")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert "CONFIDENTIAL_DATABASE" not in seen["variables"]
    assert seen["folder"] == ["declared", "envelope", "seed"]
    assert not [name for name in seen["open"] if "confidential" in name]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"public", "rows", RELEASED}
    make_public(tmp_path, tmp_path / "here")
    same_bytes(tmp_path / "out", tmp_path / "here")
