"""Releases of FBS whose records stay on disk: fitted there, made in blocks, the same every time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from salaries_in_place import RECIPE, write_survey_and_recipe

import understudy as us
from understudy.mechanisms import outcome_files
from understudy.release import inside, outside
from understudy.release.recipe import read_recipe
from understudy.survey import read

pytestmark = pytest.mark.usefixtures("outside_here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in-place")
    write_survey_and_recipe(folder)
    (folder / "rows.toml").write_text(RECIPE.replace('"Weighted"', '"Unweighted"'))
    return folder


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "IN_MEMORY", 100)
    monkeypatch.setattr(outcome_files, "BLOCK", 512)
    monkeypatch.setattr(outside, "BLOCK", 512)


def released(folder: Path, name: str, recipe: str = "release.toml") -> Path:
    return Path(us.publish(folder / recipe, folder / name, say=lambda _: None))


def manifest(release: Path) -> Any:
    return json.loads((release / "manifest.json").read_text())


@pytest.mark.usefixtures("on_disk")
def test_a_release_from_disk_is_whole_and_the_same_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inside.prepare(read_recipe(folder / "release.toml")).in_place
    first = released(folder, "first")
    assert manifest(first) == manifest(released(folder, "again"))
    release = us.open_release(first / "public.zip")
    original = pl.read_parquet(folder / "file.parquet").filter(pl.col("age") > 20)
    for made in release:
        frame = made.frame()
        assert frame.select("group", "age").equals(original.select("group", "age").sort(pl.all()))
        assert frame["salary"].is_between(1000, 200_000).all()
        assert (frame["salary"] % 10 == 0).all()
        sums = frame.group_by("group").agg(pl.col("w").sum()).sort("group")["w"]
        np.testing.assert_allclose(sums, [40_000, 25_000, 35_000], rtol=1e-12)
    assert not release[0].frame()["salary"].equals(release[1].frame()["salary"])
    # what the same recipe gives in memory: the claim to its digits, tables to their errors
    monkeypatch.setattr(read, "IN_MEMORY", 10**9)
    usual = us.open_release(released(folder, "usual"))
    assert usual.claim.conditions == release.claim.conditions
    assert usual.claim.epsilon == pytest.approx(release.claim.epsilon, rel=1e-6)
    tables = [
        us.tabulate(each, ["count", "mean(salary)"], by=["group"]) for each in (usual, release)
    ]
    ours, theirs = (table.filter(pl.col("statistic") != "count") for table in tables)
    assert (ours["estimate"] - theirs["estimate"]).abs().to_numpy() == pytest.approx(
        0.0, abs=3 * ours["se"].max()
    )
    evidence = json.loads((first / "evidence.json").read_text())
    assert evidence["rows_correspond"] is False
    assert evidence["records"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("on_disk")
def test_rows_that_are_handed_out_are_made_of_sorted_public_ones(folder: Path) -> None:
    """Under a mechanism without a claim records are made inside, and the outside puts the public
    columns beside them."""
    release = us.open_release(released(folder, "rows", "rows.toml"))
    assert release.claim.kind == "risk"
    for made in release:
        frame = made.frame()
        assert frame.select("group", "age").equals(frame.select("group", "age").sort(pl.all()))
        means = frame.group_by("group").agg(pl.col("salary").log().mean()).sort("group")["salary"]
        np.testing.assert_allclose(means.diff().drop_nulls(), 0.4, atol=0.15)


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('predictors = "group + age"', 'predictors = "group + bs(age, df=4)"'),
        ("draws = 800", 'missing = "drop"'),
        ("draws = 800", "draws = 1000000"),  # of 15 combinations of predictors
        ("[tables]", '[risk]\nknown = ["age"]\n\n[tables]'),
        ('"Weighted"', '"Censored"\nepsilon = 5'),
    ],
)
def test_what_does_not_suit_is_fitted_in_memory(folder: Path, old: str, new: str) -> None:
    (folder / "other.toml").write_text(RECIPE.replace(old, new))
    assert not inside.prepare(read_recipe(folder / "other.toml")).in_place
