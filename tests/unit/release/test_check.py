"""`check`, `--dry-run` and `release` refuse the same records, unpaid and with the internal mark."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.drawing import INTERNAL
from understudy.errors import Refused
from understudy.release.check import check_records
from understudy.release.inside import prepare
from understudy.release.publish import publish
from understudy.release.recipe import read_recipe

RECIPE = """\
[data]
path = "file.parquet"
codebook = "codebook.toml"

[synthesis]
model = "Beta"
sensitive = "share"
{settings}

[privacy]
mechanism = "PerturbedHistogram"
epsilon = 1

[tables]
statistics = ["mean(share)"]

[ledger]
place = "ledger.db"
cap = "10"
"""
CODEBOOK = """\
[columns.share]
role = "sensitive"
type = "continuous"
bounds = [0.0, 1.0]
"""
GOOD = np.random.default_rng(1).beta(2, 3, 60)


def written(folder: Path, values: list[float | None], settings: str = "") -> Path:
    pl.DataFrame({"share": values}, {"share": pl.Float64}).write_parquet(folder / "file.parquet")
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "release.toml").write_text(RECIPE.format(settings=settings))
    return folder / "release.toml"


EXACT = """\
[data]
path = "file.parquet"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["share"]

[privacy]
mechanism = "Unweighted"

[tables]
statistics = ["count"]
"""
ALONE = "are of a single record"


@pytest.mark.filterwarnings("default:Multinomial without noise")
@pytest.mark.usefixtures("outside_here")
def test_what_the_records_say_in_a_warning_or_a_dry_run_carries_the_mark(tmp_path: Path) -> None:
    """How many records are alone, how many there are, and where they pile up."""
    recipe = written(tmp_path, [0.0] * 7 + [1.0, *GOOD[:2]])
    lines = CliRunner().invoke(app, ["release", str(recipe), "--dry-run"]).output.splitlines()
    assert [line for line in lines if "10 records" in line or "%" in line]
    unmarked = [line for line in lines if INTERNAL not in line]
    assert not [line for line in unmarked if "10 records" in line or "%" in line]
    recipe.write_text(EXACT)
    text = CODEBOOK.replace("continuous", "categorical").replace("bounds = [0.0", "levels = [0")
    (tmp_path / "codebook.toml").write_text(text.replace("1.0]", "1]"))
    pl.DataFrame({"share": [0] * 9 + [1]}).write_parquet(tmp_path / "file.parquet")
    lines = CliRunner().invoke(app, ["release", str(recipe), "--dry-run"]).output.splitlines()
    assert [INTERNAL in line for line in lines if ALONE in line] == [True]
    with warnings.catch_warnings(record=True) as said:
        publish(recipe, tmp_path / "out", say=lambda _: None)
    assert [str(w.message).count(INTERNAL) for w in said if ALONE in str(w.message)] == [1]


@pytest.mark.parametrize(
    ("values", "settings", "problem"),
    [
        ([*GOOD, None], "", "has missing values"),
        ([0.5] * 60, "", "is constant"),
        ([*GOOD, 1.5], "", "bounds"),
        (list(GOOD), "datasets = 30\ndraws = 20", "data sets"),
    ],
)
def test_all_three_refuse_with_the_mark_and_nothing_is_spent(
    tmp_path: Path, values: list[float | None], settings: str, problem: str
) -> None:
    recipe = written(tmp_path, values, settings)
    with pytest.raises(Refused, match=problem) as refusal:
        check_records(prepare(read_recipe(recipe)))
    assert "internal: computed from confidential data" in str(refusal.value)
    with pytest.raises(Refused, match=problem):
        publish(recipe, tmp_path / "out", say=lambda _: None)
    for command in (["check", str(recipe)], ["release", str(recipe), "--dry-run"]):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, Refused)
        assert str(result.exception) == str(refusal.value)
    assert not (tmp_path / "ledger.db").exists()
    assert not (tmp_path / "out").exists()


REGRESSION = """\
[data]
path = "file.parquet"

[synthesis]
model = "FBP"
sensitive = "pay"
predictors = "{predictors}"
population = 90

[design]
weight = "w"

[privacy]
mechanism = "Unweighted"
"""


def regression(folder: Path, predictors: str, first: float = 9.0) -> Path:
    pl.DataFrame(
        {
            "pay": [first, *range(1, 60)],
            "w": [1.0, 2.0] * 30,
            "turn": ["left", "right"] * 30,
            "area": [1] * 60,
            "sex": ["f"] * 60,
            "age": [0.0, 1.0, 2.0] * 20,
        }
    ).write_parquet(folder / "file.parquet")
    (folder / "release.toml").write_text(REGRESSION.format(predictors=predictors))
    return folder / "release.toml"


@pytest.mark.parametrize(
    ("predictors", "problem"),
    [
        ("C(area)", "`C.area.` is constant"),
        ("sex", "`sex` is constant"),
        ("log(age)", "`log.age.` is not finite for some records"),
        ("age", "`pay` is zero or negative for some records"),
        ("turn", "`w` follows from the predictors `turn`"),
    ],
)
def test_all_three_refuse_predictors_of_one_level_and_zeros_under_a_log(
    tmp_path: Path, predictors: str, problem: str
) -> None:
    recipe = regression(tmp_path, predictors, 0.0 if predictors == "age" else 9.0)
    with pytest.raises(Refused, match=problem) as refusal:
        publish(recipe, tmp_path / "out", say=lambda _: None)
    for command in (["check", str(recipe)], ["release", str(recipe), "--dry-run"]):
        result = CliRunner().invoke(app, command)
        assert str(result.exception) == str(refusal.value)
    assert not (tmp_path / "out").exists()


def test_records_that_are_ready_pass(tmp_path: Path) -> None:
    for recipe in (written(tmp_path, list(GOOD)), regression(tmp_path, "1")):
        result = CliRunner().invoke(app, ["check", str(recipe)])
        assert result.exit_code == 0
        assert "ready" in result.output
        assert "internal" in result.output


COUNTS = """\
[data]
path = "file.csv"
codebook = "codebook.toml"
[design]
weight = "w"
[synthesis]
model = "Multinomial"
sensitive = ["place"]
[privacy]
mechanism = "Modips"
epsilon = 0.1
support = "threshold"
delta = 1e-9
[tables]
statistics = ["count"]
"""
PLACES = """\
[population]
size = 60
[columns.place]
role = "sensitive"
type = "integer"
[columns.w]
role = "weight"
type = "continuous"
"""


@pytest.mark.any_noise
@pytest.mark.parametrize(
    ("where", "weight", "problem"),
    [
        ("north", "1.0", "should hold numbers but record 60"),
        ("7", "3.5", "The weights of the records add up to"),
        ("7", "1.0", "No cell reaches the threshold"),  # after the noise
    ],
)
def test_refusals_on_the_way_in_and_after_the_noise_carry_the_mark(
    tmp_path: Path, where: str, weight: str, problem: str
) -> None:
    """Reading the file, adding up its weights and drawing noise look at the records too."""
    rows = [f"{k % 3},1.0" for k in range(59)]
    (tmp_path / "file.csv").write_text("\n".join(["place,w", *rows, f"{where},{weight}"]) + "\n")
    (tmp_path / "codebook.toml").write_text(PLACES)
    (tmp_path / "release.toml").write_text(COUNTS)
    with pytest.raises(Refused, match=problem) as refusal:
        publish(tmp_path / "release.toml", tmp_path / "out", say=lambda _: None)
    assert str(refusal.value).count("internal: computed from confidential data") == 1


def test_a_file_that_is_not_there_needs_no_mark(tmp_path: Path) -> None:
    recipe = written(tmp_path, list(GOOD))
    (tmp_path / "file.parquet").unlink()
    with pytest.raises(Refused, match="There is no file") as refusal:
        prepare(read_recipe(recipe))
    assert "internal" not in str(refusal.value)
