"""A steward's own mechanism and model, a file each: through recipe, release, report and ledger.

The files are the skeletons of CONTRIBUTING.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from skeletons import skeleton
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.release import outside, publish
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe
from understudy.toml_mistakes import TomlRefused

pytestmark = pytest.mark.usefixtures("outside_here")

MECHANISM = skeleton("NoisyCells")
RECIPE = """\
[data]
path = "file.csv"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["sex", "region"]
datasets = 2

[privacy]
mechanism = "mine.py:NoisyCells"
epsilon = 2

[tables]
statistics = ["count"]
by = ["sex"]

[ledger]
place = "ledger.db"
cap = "100"
"""
CODEBOOK = """\
title = "A small survey"

[columns.sex]
role = "sensitive"
type = "categorical"
levels = ["f", "m"]

[columns.region]
role = "sensitive"
type = "categorical"
levels = ["north", "south", "west"]
"""


def quiet(_: str) -> None:
    pass


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    sex, region = rng.choice(["f", "m"], 300), rng.choice(["north", "south", "west"], 300)
    pl.DataFrame({"sex": sex, "region": region}).write_csv(tmp_path / "file.csv")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "mine.py").write_text(MECHANISM)
    (tmp_path / "even.py").write_text(skeleton("Even"))
    (tmp_path / "release.toml").write_text(RECIPE)
    return tmp_path / "release.toml"


def spent(folder: Path) -> list[int]:
    with Ledger(folder / "ledger.db") as ledger:
        return [entry.micro for entry in ledger.entries() if entry.kind == "spend"]


@pytest.fixture
def no_mechanism_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Public files are made while the file of the mechanism is away: its output is enough."""

    def make_public(handed: Path, out: Path, *progress: Any) -> None:
        there = [tmp_path / name for name in ("mine.py", "halved.py") if (tmp_path / name).exists()]
        assert there
        for file in there:
            file.rename(file.with_suffix(".away"))
        outside.make_public(handed, out, *progress)
        for file in there:
            file.with_suffix(".away").rename(file)

    monkeypatch.setattr(publish, "run_outside", make_public)


@pytest.mark.any_noise
@pytest.mark.usefixtures("no_mechanism_outside")
def test_a_mechanism_of_ones_own(recipe: Path, tmp_path: Path) -> None:
    lines = "\n".join(forecast(prepare(read_recipe(recipe))))
    assert "kind `formal`, epsilon 2 over all data sets (mine.py:NoisyCells(epsilon=2))" in lines
    assert "charged epsilon 4 (replace, record)" in lines  # add-remove counts twice
    out = us.publish(recipe, tmp_path / "one", say=quiet)
    release = us.open_release(out)
    assert (release.claim.kind, release.claim.epsilon) == ("formal", 2.0)
    assert us.tabulate(release, "count")["estimate"].to_list() == [300]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["unseeded"] == ["noise of NoisyCells (OpenDP)"]
    assert "mine.py:NoisyCells" in (out / "report.html").read_text()
    assert spent(tmp_path) == [4_000_000]


@pytest.mark.any_noise
def test_unseeded_noise_is_never_free(recipe: Path, tmp_path: Path) -> None:
    """The recipe has a seed, but not the noise: a second release is paid again."""
    us.publish(recipe, tmp_path / "one", say=quiet)
    us.publish(recipe, tmp_path / "two", say=quiet)
    assert spent(tmp_path) == [4_000_000, 4_000_000]


@pytest.mark.parametrize(
    "fact", ["claims", "relation", "seeded", "fits", "synthesizes", "hands_out", "delta"]
)
def test_a_mechanism_that_leaves_out_a_fact_is_not_loaded(recipe: Path, fact: str) -> None:
    lines = [line for line in MECHANISM.splitlines() if not line.startswith(f"    {fact} = ")]
    (recipe.parent / "mine.py").write_text("\n".join(lines))
    with pytest.raises(match=f"NoisyCells does not declare {fact}"):
        read_recipe(recipe)


@pytest.mark.any_noise
def test_a_mechanism_whose_claim_is_another_is_refused(recipe: Path) -> None:
    (recipe.parent / "mine.py").write_text(
        MECHANISM.replace('relation = "add-remove" ', 'relation = "replace" ')
    )
    with pytest.raises(Refused, match="declares claims of kind `formal` under `replace`"):
        us.publish(recipe, say=quiet)


def test_draws_of_which_nothing_is_claimed_are_not_handed_out(recipe: Path) -> None:
    (recipe.parent / "mine.py").write_text(MECHANISM.replace('"formal"  ', '"risk"  '))
    recipe.write_text(RECIPE.partition("[ledger]")[0])
    with pytest.raises(Refused, match="NoisyCells claims nothing of its draws and hands them out"):
        us.publish(recipe, say=quiet)


@pytest.mark.any_noise
def test_a_claim_with_more_delta_than_declared_is_refused(recipe: Path) -> None:
    """Also without a ledger, which would refuse what it was not paid."""
    (recipe.parent / "mine.py").write_text(
        MECHANISM.replace('self.epsilon, relation="', 'self.epsilon, 1e-6, relation="')
    )
    recipe.write_text(RECIPE.partition("[ledger]")[0])
    with pytest.raises(Refused, match="declares delta 0, and this claim has 1e-06"):
        us.publish(recipe, say=quiet)


def test_a_mechanism_says_its_keys(recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("epsilon = 2", 'boost = "much"'))
    with pytest.raises(TomlRefused) as refusal:
        read_recipe(recipe)
    lines = str(refusal.value).splitlines()
    assert "[privacy] lacks `epsilon`: Privacy budget of the whole release" in lines[0]
    assert "`boost` must be a whole number, 0 or more." in lines[1]


def test_a_changed_file_is_another_release(recipe: Path) -> None:
    first = prepare(read_recipe(recipe)).identity
    (recipe.parent / "mine.py").write_text(MECHANISM.replace("= 0\n", "= 1\n"))
    assert prepare(read_recipe(recipe)).identity != first


@pytest.mark.any_noise
def test_a_model_of_ones_own(recipe: Path, tmp_path: Path) -> None:
    text = RECIPE.replace('"Multinomial"', '"even.py:Even"\nplus = 0.5')
    text = text.replace('"mine.py:NoisyCells"', '"modips"\nsupport = "public"')
    recipe.write_text(text)
    out = us.publish(recipe, tmp_path / "one", say=quiet)
    assert us.tabulate(us.open_release(out), "count")["estimate"].to_list() == [300]
    assert "even.py:Even(sex, region, plus=0.5)" in (out / "report.html").read_text()
    assert spent(tmp_path) == [4_000_000]


OUTCOME = """\
[data]
path = "waiting.csv"
codebook = "waiting.toml"

[synthesis]
model = "waiting.py:Waiting"
sensitive = "minutes"
predictors = "area"
spread = 3
draws = 1000

[privacy]
mechanism = "Censored"
weighted = false
epsilon = 6

[ledger]
place = "ledger.db"
cap = "100"
"""
WAITING = """\
[columns.area]
role = "public"
type = "categorical"
levels = ["north", "south"]

[columns.minutes]
role = "sensitive"
type = "continuous"
"""


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    area = np.repeat(["north", "south"], 150)
    minutes = rng.exponential(np.where(area == "north", 1.0, 3.0))
    pl.DataFrame({"area": area, "minutes": minutes}).write_csv(tmp_path / "waiting.csv")
    (tmp_path / "waiting.toml").write_text(WAITING)
    (tmp_path / "waiting.py").write_text(skeleton("Waiting"))
    (tmp_path / "halved.py").write_text(skeleton("Halved"))
    (tmp_path / "release.toml").write_text(OUTCOME)
    return tmp_path / "release.toml"


@pytest.mark.usefixtures("outside_apart")
def test_a_model_of_an_outcome(waiting: Path, tmp_path: Path) -> None:
    """In both processes: the one that fits it, and the one that draws from it."""
    out = us.publish(waiting, tmp_path / "out", say=quiet, progress=False)
    assert "waiting.py:Waiting(minutes ~ area, spread=3)" in (out / "report.html").read_text()
    released = us.open_release(out).datasets[0].frame()
    assert (released["minutes"] > 0).all()
    mean = dict(released.group_by("area").agg(pl.col("minutes").mean()).iter_rows())
    assert mean["south"] > mean["north"]
    assert spent(tmp_path) == [12_000_000]  # blank counts twice


@pytest.mark.usefixtures("no_mechanism_outside")
def test_a_mechanism_for_outcomes(waiting: Path, tmp_path: Path) -> None:
    censored = '"Censored"\nweighted = false\nepsilon = 6'
    text = OUTCOME.replace(censored, '"halved.py:Halved"\nshare = 0.25')
    waiting.write_text(text.partition("[ledger]")[0])
    out = us.publish(waiting, tmp_path / "out", say=quiet, progress=False)
    assert us.open_release(out).claim.kind == "risk"
    assert "halved.py:Halved(share=0.25)" in (out / "report.html").read_text()
    waiting.write_text(text)
    with pytest.raises(Refused, match="A ledger counts epsilon, and this mechanism states none"):
        us.publish(waiting, tmp_path / "again", say=quiet, progress=False)


@pytest.mark.parametrize("fact", ["generates_from_records", "deepest_tree"])
def test_a_model_that_leaves_out_a_fact_is_not_loaded(waiting: Path, fact: str) -> None:
    lines = [line for line in skeleton("Waiting").splitlines() if f"    {fact} = " not in line]
    (waiting.parent / "waiting.py").write_text("\n".join(lines))
    with pytest.raises(match=f"Waiting does not declare {fact}"):
        read_recipe(waiting)
