"""`understudy release`, `compare` and the examples."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import understudy as us
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.any_noise
def test_a_wrong_recipe_ends_with_2_and_nothing_written(tmp_path: Path) -> None:
    recipe = tmp_path / "release.toml"
    recipe.write_text('[data]\npth = "x.csv"\n[synthesis]\nmodel = "WholeFile"\n')
    command = Path(sys.executable).with_name("understudy")
    ran = subprocess.run(
        [command, "release", str(recipe)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "release.toml:2: Unknown key in [data] `pth`; did you mean `path`?" in ran.stderr
    assert "The section [privacy] is missing." in ran.stderr
    assert "Traceback" not in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["release.toml"]


@pytest.mark.parametrize("name", ["acs_hawaii", "ce_income"])
def test_an_example_can_be_prepared(name: str, shared_data: Path) -> None:
    assert shared_data.is_dir()
    sentences = forecast(prepare(read_recipe(EXAMPLES / name / "release.toml")))
    assert sentences[-1] == "Nothing was spent and nothing was written."


@pytest.mark.usefixtures("stand_in_seed", "outside_here")
def test_incomes_of_hawaii(shared_data: Path, tmp_path: Path) -> None:
    """Confidential tables by the 80 replicates, synthetic incomes and weights in the release: the
    example, but of two of its ten areas, each of which has rows in every figure."""
    areas = ["00304", "00308"]
    persons = pl.read_parquet(shared_data / "acs2018_person_hi.parquet")
    persons = persons.filter(pl.col("PUMA").is_in(areas))
    persons.write_parquet(tmp_path / "persons.parquet")
    original = persons.filter(pl.col("PINCP") > 10_000)  # log-normal enough for the tables below
    listed = re.compile(r'(?<=levels = )\["00100".*\]')
    for file in ("release.toml", "codebook.toml"):
        text = (EXAMPLES / "acs_hawaii" / file).read_text()
        text = text.replace("../../../shared/data/acs2018_person_hi.parquet", "persons.parquet")
        text = text.replace("size = 1031000", f"size = {original['PWGTP'].sum()}")
        text = listed.sub(json.dumps(areas), text)
        (tmp_path / file).write_text(text.replace("PINCP > 0", "PINCP > 10000"))
    out = us.publish(tmp_path / "release.toml", say=lambda _: None, progress=False)
    release = us.open_release(out)
    assert release[0].columns == ("PUMA", "PWGTP", "SEX", "PINCP")  # no replicate weight
    survey = us.Survey(
        original, us.Design(weight="PWGTP", replicates=us.Replicates(prefix="PWGTP", kind="sdr"))
    )
    ours = us.tabulate(survey, "mean(PINCP)", by="SEX").sort("SEX")
    made = us.tabulate(release, "mean(PINCP)", by="SEX").sort("SEX")
    for mine, theirs in zip(ours.iter_rows(named=True), made.iter_rows(named=True), strict=True):
        assert theirs["estimate"] == pytest.approx(mine["estimate"], rel=0.25)
    evidence = (out / "evidence.json").read_text()
    assert f"{ours['se'][0]:.4f}"[:6] in evidence  # the replicates' standard error
