"""A release of a whole file with rules: they hold in every record, formulas are computed, and the
pages say what that changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe

N = 600
CODEBOOK = """
order = ["wages <= income"]
[columns.group]
role = "public"
type = "categorical"
levels = ["a", "b"]
blanks = false
[columns.wages]
type = "integer"
label = "Wages"
bounds = [0, 90]
blanks = false
[columns.income]
type = "integer"
bounds = [0, 99]
blanks = false
[columns.rest]
type = "integer"
derived = "income - wages"
bounds = [0, 1]
drafted = ["bounds"]
"""
RECIPE = """
[data]
path = "file.csv"
codebook = "codebook.toml"
[synthesis]
model = "WholeFile"
[privacy]
mechanism = "Marginals"
epsilon = 5
delta = 1e-6
[tables]
statistics = ["mean(rest)"]
by = ["group"]
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 5_000)
    rng = np.random.default_rng(2)
    wages = rng.integers(0, 90, N)
    income = np.minimum(wages + rng.integers(0, 40, N), 99)
    group = rng.choice(["a", "b"], N)
    frame = pl.DataFrame({"group": group, "wages": wages, "income": income})
    frame.with_columns(rest=pl.col("income") - pl.col("wages")).write_csv(tmp_path / "file.csv")
    (tmp_path / "codebook.toml").write_text(CODEBOOK, encoding="utf-8")
    (tmp_path / "release.toml").write_text(RECIPE, encoding="utf-8")
    return tmp_path / "release.toml"


@pytest.mark.usefixtures("outside_here", "stand_in_noise")
def test_rules_hold_and_what_they_changed_is_told(recipe: Path) -> None:
    folder = us.publish(recipe, say=lambda _: None, progress=False)
    file = pl.read_parquet(folder / "synthetic" / "1.parquet")
    assert (file["wages"] <= file["income"]).all()
    assert file["rest"].equals(file["income"] - file["wages"])
    assert file["rest"].max() > 1  # bounds that were drafted from the records bind nobody
    for page in ("public.html", "report.html"):
        text = (folder / page).read_text(encoding="utf-8")
        assert "Every record keeps the codebook&#39;s rules" in text, page
        assert "<code>wages &lt;= income</code> by" in text, page
    assert "no row stands for a real person" in (folder / "public.html").read_text("utf-8")
    opened = us.open_release(folder)
    assert us.tabulate(opened, "mean(rest)").height == 1
    assert opened.draw(50).datasets[0].columns == opened.datasets[0].columns


def test_a_column_that_is_computed_is_neither_drawn_nor_kept(recipe: Path) -> None:
    said = forecast(prepare(read_recipe(recipe)))
    assert "Synthesized: group, wages, income, by WholeFile(all columns)." in said
    assert "Published as they are: nothing." in said
    assert not any("break a rule" in line for line in said)
    kept = RECIPE.replace('"WholeFile"', '"WholeFile"\nkeep = ["group"]')
    kept = kept.replace("delta = 1e-6", 'delta = 1e-6\nrelation = "blank"')
    recipe.write_text(kept, encoding="utf-8")
    said = forecast(prepare(read_recipe(recipe)))
    assert "Published as they are: group." in said
    assert any(line.startswith("Kept as collected: group. 0 of 600") for line in said)
    named = RECIPE.replace('"WholeFile"', '"WholeFile"\nsensitive = ["wages", "rest"]')
    recipe.write_text(named, encoding="utf-8")
    with pytest.raises(Refused, match="`rest` is computed from other columns"):
        prepare(read_recipe(recipe))


def test_a_rule_about_a_column_that_nobody_knows_is_refused_unpaid(recipe: Path) -> None:
    """And one about columns that this release leaves out goes with them."""
    without = RECIPE.replace('"WholeFile"', '"WholeFile"\nsensitive = ["group", "income"]')
    recipe.write_text(without.replace("mean(rest)", "count"), encoding="utf-8")
    codebook = prepare(read_recipe(recipe)).narrowed.codebook
    assert (codebook.order, list(codebook.columns)) == ((), ["group", "income"])
    book = recipe.parent / "codebook.toml"
    book.write_text(CODEBOOK.replace("wages <=", "wage <="), encoding="utf-8")
    with pytest.raises(Refused, match="rule of the codebook `wage`; did you mean `wages`"):
        prepare(read_recipe(recipe))


def test_a_dry_run_counts_the_records_that_break_a_rule(recipe: Path) -> None:
    book = recipe.parent / "codebook.toml"
    rules = 'impossible = ["group == \'a\' and wages > 80"]\norder = ["income <= wages"]'
    book.write_text(CODEBOOK.replace('order = ["wages <= income"]', rules), encoding="utf-8")
    file = pl.read_csv(recipe.parent / "file.csv")
    more = (file["income"] > file["wages"]).sum()
    odd = file.filter((pl.col("group") == "a") & (pl.col("wages") > 80)).height
    said = next(line for line in forecast(prepare(read_recipe(recipe))) if "break a rule" in line)
    assert f"`income <= wages` {more:,}, `group == 'a' and wages > 80` {odd}." in said
    assert said.endswith("(internal: computed from confidential data)")
