"""The outside: every public file from the handed-out folder alone, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import CASES
from releases import base, handed

from understudy.errors import Refused
from understudy.release.outside import PUBLIC, files_in, make_public, run_outside
from understudy.survey.file_format import formats

CASE = next(case for case in CASES if str(case) == "BetaRegression-Censored")
WRITTEN = sorted(known.written[0].removeprefix(".") for known in formats() if known.written)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one release hands out, in every format that is written."""
    made = tmp_path_factory.mktemp("handed")
    for name, content in handed(CASE, base()).items():
        (made / name).parent.mkdir(exist_ok=True)
        listed = ", ".join(f'"{kind}"' for kind in WRITTEN if kind != "parquet")
        asked = content.replace(b'formats": []', f'formats": [{listed}]'.encode())
        (made / name).write_bytes(asked.replace(b"FOLDER", str(made).encode()))
    return made


def test_the_same_envelope_gives_the_same_public_bytes(folder: Path, tmp_path: Path) -> None:
    """In another process or in this one, today or tomorrow; in every format."""
    for name in ("another", "this"):
        (tmp_path / name).mkdir()
    run_outside(folder, tmp_path / "another")
    make_public(folder, tmp_path / "this")
    public = files_in(tmp_path / "another" / PUBLIC)
    assert public == files_in(tmp_path / "this" / PUBLIC)
    assert {f"synthetic/1.{kind}" for kind in WRITTEN} < set(public)
    for name in public:
        ours, theirs = (tmp_path / place / PUBLIC / name for place in ("this", "another"))
        assert ours.read_bytes() == theirs.read_bytes(), name


def test_the_outside_cannot_fit_and_reads_no_recipe() -> None:
    """It imports no model, sampler, mechanism, recipe or ledger, and no JAX."""
    code = (
        "import sys, understudy.release.outside\n"
        "rooms = {n.split('.')[1] for n in sys.modules if n.startswith('understudy.')}\n"
        "print(*sorted(rooms & {'models', 'fitting', 'mechanisms', 'ledger', 'synthesis', 'dp'}))\n"
        "print(*[n for n in sys.modules if n in ('jax', 'understudy.release.inside')])\n"
    )
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, check=True, capture_output=True, text=True, env={**os.environ})
    assert done.stdout.split() == []


def test_the_outside_starts_without_what_it_seldom_needs() -> None:
    """Every release waits for this process to start: formulas and laws are loaded where used."""
    code = "import sys, understudy.release.outside; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seldom = {"pandas", "formulaic", "scipy.stats", "scipy.optimize", "matplotlib"}
    assert seldom & set(done.stdout.split()) == set()


def test_what_the_outside_refuses_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "envelope").mkdir()
    for name in ("claim.json", "1.parquet", "2.parquet"):
        (tmp_path / "envelope" / name).write_bytes((folder / "envelope" / name).read_bytes())
    (tmp_path / "envelope" / "records.csv").write_text("1,2,3")
    with pytest.raises(Refused, match="something that no claim covers; nothing is published"):
        run_outside(tmp_path, tmp_path)
