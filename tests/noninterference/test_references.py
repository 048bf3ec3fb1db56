"""A reference file is read the same whatever the confidential values are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from neighbours import changed
from releases import CODEBOOK, base

from understudy.errors import Refused
from understudy.fitting.fitter import ModelFitter
from understudy.mechanisms.contract import Mechanism
from understudy.mechanisms.reference_censored import ReferenceCensored
from understudy.models.contract import OutcomeModel
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe
from understudy.synthesis import ready_outcome

RECIPE = """\
[data]
path = "file.csv"
codebook = "codebook.toml"
[synthesis]
model = "NegativeBinomial"
sensitive = "visits"
predictors = "area + sex"
[privacy]
mechanism = "ReferenceCensored"
epsilon = 4
reference = "past.csv"
"""


def reference_beside(folder: Path, confidential: pl.DataFrame) -> pl.DataFrame:
    """The reference as the mechanism gets it, where this is the confidential file."""
    past = base().with_columns(pl.col("visits") + 0.4)  # of a cycle that kept decimals
    past.write_csv(folder / "past.csv")
    confidential.write_csv(folder / "file.csv")
    (folder / "codebook.toml").write_text(CODEBOOK, encoding="utf-8")
    (folder / "release.toml").write_text(RECIPE, encoding="utf-8")
    return reference_of(folder)


def reference_of(folder: Path) -> pl.DataFrame:
    mechanism = prepare(read_recipe(folder / "release.toml")).mechanism
    assert isinstance(mechanism, ReferenceCensored)
    assert not isinstance(mechanism.reference, str)
    return pl.DataFrame(mechanism.reference.raw.to_polars())


def test_one_confidential_decimal_does_not_change_the_reference(tmp_path: Path) -> None:
    """Whole numbers in the file used to round the reference, and one 7.5 did not: theta_ref, which
    every contribution is measured from, then told of that record."""
    ours = reference_beside(tmp_path, base())
    theirs = reference_beside(tmp_path, changed(base(), 5, "visits", 7.5))
    assert ours.equals(theirs)
    assert ours.schema == theirs.schema


def test_the_declared_codebook_reads_the_reference_too(tmp_path: Path) -> None:
    """A past cycle in CSV has the same texts for missing values; they used to make its numbers a
    column of text, which was refused."""
    codebook = CODEBOOK.replace("bounds = [0, 1000]", 'bounds = [0, 1000]\nmissing = ["refused"]')
    visits = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("refused"))
    reference_beside(tmp_path, base())
    (tmp_path / "codebook.toml").write_text(codebook, encoding="utf-8")
    past = base().with_columns(visits.otherwise(pl.col("visits").cast(pl.String)).alias("visits"))
    past.write_csv(tmp_path / "past.csv")
    read = reference_of(tmp_path)["visits"].to_list()
    expected: list[int | None] = base()["visits"].to_list()
    expected[3] = None
    assert sorted(read, key=str) == sorted(expected, key=str)


@dataclass(frozen=True)
class TellTale:
    """A fit that passes, or does not."""

    positions: Any
    good: bool

    def check(self) -> None:
        if not self.good:
            raise Refused("R-hat is 1.4.")


def tell_tale_fit(fitter: ModelFitter, terms: Any, *_stage_and_start: Any) -> TellTale:
    """Passes at any scale, and only at small ones where a record lies far out."""
    chains = 0.1 * np.random.default_rng(7).standard_normal((40, fitter.density.dimension))
    bar = 0.3 if fitter.sensitive_values.max() > 30 else 2.0  # which a reference need not pass
    return TellTale(chains, bool(np.isinf(terms.limit) or terms.alpha.max() < bar))


def rehearsed_beside(folder: Path, reference: str, confidential: pl.DataFrame) -> Mechanism:
    """What is settled before the payment, where this is the confidential file."""
    reference_beside(folder, confidential)
    guess = "bounds = [0, 1000]\ntypical = 6\nspread = 5"
    codebook = CODEBOOK.replace("bounds = [0, 1000]", guess)
    (folder / "codebook.toml").write_text(codebook, encoding="utf-8")
    recipe = RECIPE.replace('"past.csv"', f'"{reference}"')
    (folder / "release.toml").write_text(recipe, encoding="utf-8")
    inside = prepare(read_recipe(folder / "release.toml"))
    assert isinstance(inside.model, OutcomeModel)
    fit = inside.recipe.fit_settings(None)
    ready = ready_outcome(
        inside.publication, inside.narrowed, inside.model, inside.mechanism, 1, fit
    )
    return ready.rehearsed.mechanism


def neighbours_settle_the_same(folder: Path, reference: str) -> None:
    files = [base(), changed(base(), 5, "visits", 700)]
    settled = []
    for file in files:
        mechanism = rehearsed_beside(folder, reference, file)
        settled.append((mechanism.scale, mechanism.stages))  # type: ignore[attr-defined]
    assert settled == settled[:1] * len(files)
    assert settled[0][0] != "auto"


@pytest.mark.parametrize("reference", ["past.csv", "none"])
def test_a_rehearsal_settles_the_same_whatever_the_records_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    monkeypatch.setattr(ModelFitter, "fit", tell_tale_fit)
    neighbours_settle_the_same(tmp_path, reference)


def test_a_scale_that_is_chosen_on_the_confidential_file_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelFitter, "fit", tell_tale_fit)
    monkeypatch.setattr(ModelFitter, "on", lambda fitter, *_: fitter)
    with pytest.raises(AssertionError):
        neighbours_settle_the_same(tmp_path, "past.csv")


def test_a_division_that_is_chosen_on_the_confidential_file_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelFitter, "fit", tell_tale_fit)
    monkeypatch.setattr(ModelFitter, "on_guess", lambda fitter, _: fitter)
    with pytest.raises(AssertionError):
        neighbours_settle_the_same(tmp_path, "none")
