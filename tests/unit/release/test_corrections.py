"""Releases whose table is corrected: the walk, the price, the claim, kills, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.claim import Claim
from understudy.corrected_table import Corrections
from understudy.dp import noise
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.release import publish as publishing
from understudy.release.correct import with_corrections
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.outside import ENVELOPE, HandedOut
from understudy.release.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("outside_here")

RECIPE = """\
[data]
path = "file.csv"
codebook = "codebook.toml"
[synthesis]
model = "WholeFile"
datasets = 2
[privacy]
mechanism = "Marginals"
epsilon = 2
relation = "replace"
[tables]
statistics = ["count", "mean(x)"]
by = ["g", "h"]
correct = 1.5
[ledger]
place = "ledger.db"
cap = "40"
"""
CODEBOOK = """\
[columns.g]
role = "sensitive"
type = "categorical"
levels = ["a", "b"]
[columns.h]
role = "sensitive"
type = "categorical"
levels = [1, 2]
[columns.x]
role = "sensitive"
type = "integer"
bounds = [0, 120]
"""
OUTCOME = RECIPE.replace(
    'model = "WholeFile"',
    'model = "BetaRegression"\nsensitive = "x"\nbounds = [-1, 121]\npredictors = "g + h"',
)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    draw = np.random.default_rng(3)
    g, h = draw.integers(0, 2, 600), draw.integers(0, 2, 600)
    x = np.round(np.clip(40 + 20 * g + 5 * h + draw.normal(0, 10, 600), 0, 120)).astype(int)
    frame = pl.DataFrame({"g": np.array(["a", "b"])[g], "h": h + 1, "x": x})
    frame.write_csv(tmp_path / "file.csv")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "release.toml").write_text(RECIPE)
    return tmp_path / "release.toml"


def entries(recipe: Path) -> list[int]:
    with Ledger(recipe.parent / "ledger.db") as ledger:
        return [entry.micro for entry in ledger.entries() if entry.kind == "spend"]


@pytest.mark.any_noise
def test_a_release_with_a_corrected_table(recipe: Path) -> None:
    out = us.publish(recipe, accept="a test", say=lambda _: None)
    release = us.open_release(out / "public.zip")
    assert (release.claim.epsilon, release.claim.relation) == (3.5, "replace")
    assert any("epsilon 1.5 of the whole" in text for text in release.claim.conditions)
    assert entries(recipe) == [3_500_000]  # once, for both
    table = pl.read_csv(out / "tables.csv")
    files = us.tabulate(release, ["count", "mean(x)"], by=["g", "h"], margins=True)
    both = table.join(files, on=["g", "h", "statistic"], suffix="_files")
    assert both.height == table.height == files.height
    np.testing.assert_allclose(both["released"], both["estimate_files"], rtol=1e-9)
    assert set(table["share"].drop_nulls().is_between(0, 1)) == {True}
    counts = {tuple(r): v for *r, v in _rows(table, "count")}
    means = {tuple(r): v for *r, v in _rows(table, "mean(x)")}
    inner = [key for key in counts if "All" not in key]
    assert counts["All", "All"] == pytest.approx(600)  # the number of records is public
    for level in {key[0] for key in inner}:
        cells = [key for key in inner if key[0] == level]
        total = sum(counts[key] for key in cells)
        assert counts[level, "All"] == pytest.approx(total, abs=1e-6)
        if total > 0 and None not in [means[key] for key in cells]:  # noise may make a Missing
            mean = sum(counts[key] * means[key] for key in cells) / total
            assert means[level, "All"] == pytest.approx(mean)
    facts = json.loads((out / "release.json").read_text())
    assert facts["corrected"]["statistics"] == ["count", "mean(x)"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["corrected"]["noise"] == "integer Laplace noise"
    assert "noise of the corrected table (OpenDP)" in manifest["unseeded"]
    page = (out / "public.html").read_text()
    assert "at epsilon 1.5 of the claim above (Laplace noise)" in page
    assert "which no program can make again from the files" in page  # of the R program


def _rows(table: pl.DataFrame, statistic: str) -> list[tuple[Any, ...]]:
    return table.filter(statistic=statistic).select("g", "h", "estimate").rows()


class Killed(BaseException):
    """What a kill is to the code: nothing after it runs."""


@pytest.mark.any_noise
def test_a_release_killed_after_its_corrections_were_drawn_goes_on_with_them(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[list[int]] = []
    sound = publishing.correct

    def killed(*asked: object) -> None:
        original = noise._opendp_laplace

        def recorded(counts: np.ndarray, scale: float) -> np.ndarray:
            drawn.append(original(counts, scale).tolist())
            return np.array(drawn[-1])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(noise, "_opendp_laplace", recorded)
            sound(*asked)
        raise Killed

    monkeypatch.setattr(publishing, "correct", killed)
    with pytest.raises(Killed):
        us.publish(recipe, accept="a test", say=lambda _: None)
    monkeypatch.setattr(publishing, "correct", sound)
    out = us.publish(recipe, accept="a test", say=lambda _: None)
    assert len(drawn) == 1
    assert json.loads((out / "corrections.json").read_text())["sums"] == drawn[0]
    assert entries(recipe) == [3_500_000]


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("correct = 1.5", "correct = -1", 14, "epsilon must be a finite number above 0"),
        ("correct = 1.5", "correct = true", 14, "`correct` must be a finite number"),
        ("correct = 1.5", "correct_delta = 1e-6", 14, "stands beside `correct`"),
        ("correct = 1.5", "correct = 1\ncorrect_delta = 2.0", 14, "delta must be"),
        ('by = ["g", "h"]\n', "", 13, "name columns in `by`"),
    ],
)
def test_mistakes_have_their_lines(
    recipe: Path, old: str, new: str, line: int, reason: str
) -> None:
    recipe.write_text(RECIPE.replace(old, new))
    with pytest.raises(Refused, match=rf"release.toml:{line}: [^\n]*{reason}"):
        read_recipe(recipe)


def test_a_mechanism_without_epsilon_goes_with_no_corrections(recipe: Path) -> None:
    text = OUTCOME.replace('"Marginals"\nepsilon = 2\nrelation = "replace"', '"Unweighted"')
    recipe.write_text(text.partition("[ledger]")[0])
    with pytest.raises(Refused, match="Unweighted claims none for the files beside them"):
        read_recipe(recipe)


def test_what_has_no_corrected_form_is_refused_before_anything_is_spent(recipe: Path) -> None:
    recipe.write_text(RECIPE.replace('"mean(x)"', '"median(x)"'))
    with pytest.raises(Refused, match=r"`median\(x\)` cannot be corrected"):
        us.publish(recipe)
    private = 'mechanism = "Censored"\nepsilon = 2\nweighted = false\n[tables]'
    start, _, rest = OUTCOME.partition('mechanism = "Marginals"')
    public = start + private + rest.partition("[tables]")[2].replace(', "mean(x)"', "")
    recipe.write_text(public)
    with pytest.raises(Refused, match="there is nothing to correct"):
        us.publish(recipe)
    assert not (recipe.parent / "ledger.db").exists()


def test_corrections_for_units_need_their_limit_before_anything_is_spent(recipe: Path) -> None:
    """The files do not say which records belong together, so the clip rests on the limit."""
    file, book = recipe.parent / "file.csv", recipe.parent / "codebook.toml"
    frame = pl.read_csv(file)
    frame.with_columns(home=pl.Series(np.arange(frame.height) // 2)).write_csv(file)
    columns = CODEBOOK + '[columns.home]\nrole = "unit"\ntype = "integer"\n'
    start, _, rest = OUTCOME.partition('mechanism = "Marginals"')
    private = 'mechanism = "Censored"\nepsilon = 2\nweighted = false\n[tables]'
    recipe.write_text(start + private + rest.partition("[tables]")[2])
    book.write_text('unit = "home"\n' + columns)
    with pytest.raises(Refused, match="declare `records_per_unit`"):
        us.publish(recipe)
    assert not (recipe.parent / "ledger.db").exists()
    book.write_text('unit = "home"\nrecords_per_unit = 2\n' + columns)
    asked = prepare(read_recipe(recipe)).corrections
    assert asked is not None
    assert (asked.unit, asked.records) == ("home", 2)


def test_a_dry_run_says_both_prices_and_what_noise_to_expect(recipe: Path) -> None:
    said = "\n".join(forecast(prepare(read_recipe(recipe))))
    assert "epsilon 3.5 over all data sets" in said
    assert "corrected in count, mean(x): epsilon 1.5 (integer Laplace noise), and the files" in said
    assert "`mean(x)` will be corrected in about 4 cells with noise of" in said
    assert "The ledger will be charged epsilon 3.5" in said


@pytest.mark.any_noise
def test_the_outside_refuses_sums_that_are_not_for_its_plan(recipe: Path, tmp_path: Path) -> None:
    inside = prepare(read_recipe(recipe))
    publishing.draw_chance(tmp_path)
    chance = us.release.publish.Chance((tmp_path / "seed").read_bytes(), "system")
    handed = tmp_path / "handed"
    handed.mkdir()
    publishing.run_synthesis(inside, chance, handed, False)
    assert HandedOut.of(handed).table().height > 0
    path = handed / ENVELOPE / "corrections.json"
    values = json.loads(path.read_text())
    values["steps"][0] *= 1.01
    path.write_text(json.dumps(values))
    with pytest.raises(Refused, match="not made for these files"):
        HandedOut.of(handed).table()


def test_claims_of_files_and_corrections_add_up() -> None:
    files = Claim("formal", 3.0, relation="blank")
    whole = with_corrections(files, Corrections(0.5, relation="blank"))
    assert (whole.epsilon, whole.relation, whole.epsilon_replace) == (3.5, "blank", 6.5)
    whole = with_corrections(files, Corrections(0.5, 1e-6, relation="blank"))
    assert (whole.epsilon, whole.delta, whole.relation) == (6.5, 1e-6, "replace")
    files = Claim("formal", 1.0, delta=1e-9, relation="add-remove", unit="home")
    whole = with_corrections(files, Corrections(0.5, 1e-9, "add-remove", "home"))
    assert (whole.epsilon, whole.delta, whole.unit) == (1.5, 2e-9, "home")
    assert whole.relation == "add-remove"
