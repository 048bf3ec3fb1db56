"""A steward's own mechanism and model, a file each: through recipe, release and ledger."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.ledger.ledger import Ledger
from understudy.release.forecast import forecast
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe
from understudy.toml_mistakes import TomlRefused

MECHANISM = """
from dataclasses import dataclass, replace
from typing import Annotated

from understudy.claim import Claim
from understudy.dp.noise import integer_laplace
from understudy.mechanisms.contract import Mechanism, ReleasedRows
from understudy.mechanisms.modips import rescaled


@dataclass(frozen=True)
class Mine(Mechanism):
    claims = "formal"
    relation = "add-remove"
    seeded = False
    fits = 0
    synthesizes = "rows"

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    boost: Annotated[int, "Added to every noisy count."] = 0

    def release_rows(self, counts, datasets):
        counts.check_declared()
        table = counts.all_declared
        claim = Claim("formal", self.epsilon, relation="add-remove", mechanism="Mine")

        def one_set(rng):
            noisy = integer_laplace(table.counts, datasets, self.epsilon) + self.boost
            return replace(table, counts=counts.model.draw(rescaled(noisy, table.n), table.n, rng))

        return ReleasedRows(counts.each(one_set, datasets), [], claim)
"""
MODEL = '''
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from understudy.models.contract import RowsModel


@dataclass(frozen=True)
class Even(RowsModel):
    """Cells in proportion to their counts plus a constant, without a Dirichlet draw."""

    synthesizes = "rows"

    columns: Annotated[tuple[str, ...], "The columns that are synthesized."]
    plus: Annotated[float, "Added to every cell."] = 1.0
    missing: Literal["refuse", "level"] = "refuse"
    size: int | None = None

    def draw(self, counts, size, rng):
        shares = np.asarray(counts) + self.plus
        return rng.multinomial(size, shares / shares.sum())
'''
RECIPE = """\
[data]
path = "file.csv"
codebook = "codebook.toml"

[synthesis]
model = "Multinomial"
sensitive = ["sex", "region"]
datasets = 2

[privacy]
mechanism = "mine.py:Mine"
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
    (tmp_path / "even.py").write_text(MODEL)
    (tmp_path / "release.toml").write_text(RECIPE)
    return tmp_path / "release.toml"


def spent(folder: Path) -> list[int]:
    with Ledger(folder / "ledger.db") as ledger:
        return [entry.micro for entry in ledger.entries() if entry.kind == "spend"]


@pytest.mark.any_noise
def test_a_mechanism_of_ones_own(recipe: Path, tmp_path: Path) -> None:
    lines = "\n".join(forecast(prepare(read_recipe(recipe))))
    assert "kind `formal`, epsilon 2 over all data sets (mine.py:Mine(epsilon=2))" in lines
    assert "charged epsilon 4.0 (replace)" in lines  # add-remove counts twice
    out = us.publish(recipe, tmp_path / "one", say=quiet)
    release = us.open_release(out)
    assert (release.claim.kind, release.claim.epsilon) == ("formal", 2.0)
    assert us.tabulate(release, "count")["estimate"].to_list() == [300]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["unseeded"] == ["noise of Mine (OpenDP)"]
    assert "mine.py:Mine" in (out / "report.html").read_text()
    assert spent(tmp_path) == [4_000_000]


@pytest.mark.any_noise
def test_unseeded_noise_is_never_free(recipe: Path, tmp_path: Path) -> None:
    """The recipe has a seed, but not the noise: a second release is paid again."""
    us.publish(recipe, tmp_path / "one", say=quiet)
    us.publish(recipe, tmp_path / "two", say=quiet)
    assert spent(tmp_path) == [4_000_000, 4_000_000]


@pytest.mark.parametrize("fact", ["claims", "relation", "seeded", "fits", "synthesizes"])
def test_a_mechanism_that_leaves_out_a_fact_is_not_loaded(recipe: Path, fact: str) -> None:
    lines = [line for line in MECHANISM.splitlines() if not line.startswith(f"    {fact} = ")]
    (recipe.parent / "mine.py").write_text("\n".join(lines))
    with pytest.raises(match=f"Mine does not declare {fact}"):
        read_recipe(recipe)


@pytest.mark.any_noise
def test_a_mechanism_whose_claim_is_another_is_refused(recipe: Path) -> None:
    (recipe.parent / "mine.py").write_text(
        MECHANISM.replace('relation = "add-remove"\n', 'relation = "replace"\n')
    )
    with pytest.raises(Refused, match="declares claims of kind `formal` under `replace`"):
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
    text = text.replace('"mine.py:Mine"', '"modips"\nsupport = "public"')
    recipe.write_text(text)
    out = us.publish(recipe, tmp_path / "one", say=quiet)
    assert us.tabulate(us.open_release(out), "count")["estimate"].to_list() == [300]
    assert "even.py:Even(sex, region, plus=0.5)" in (out / "report.html").read_text()
    assert spent(tmp_path) == [4_000_000]
