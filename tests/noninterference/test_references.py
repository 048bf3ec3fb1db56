"""A reference file is read the same whatever the confidential values are."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from neighbours import changed
from releases import CODEBOOK, base

from understudy.mechanisms.reference_censored import ReferenceCensored
from understudy.release.inside import prepare
from understudy.release.recipe import read_recipe

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
