"""Strata of whole files: every record has one, and a stratum of one record stops no table."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.models.whole_file import WholeFile
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import LonelyPsu

RARE = 6  # strata of a record or two, beside two large ones


def stratified() -> us.Survey:
    """As `understudy codebook` drafts a stratum: nothing is said of blanks."""
    rng = np.random.default_rng(7)
    frame = pl.DataFrame(
        {
            "h": np.r_[np.repeat([0, 1], 300), 2 + np.arange(2 * RARE) // 2],
            "a": rng.integers(0, 3, 600 + 2 * RARE),
        }
    )
    columns = {
        "h": Column("h", "stratum", "categorical", levels=(*range(2 + RARE),), missing=(99,)),
        "a": Column("a", "sensitive", "categorical", levels=(0, 1, 2), blanks=False),
    }
    return us.Survey(frame, us.Design(strata="h"), Codebook(columns))


@pytest.fixture(scope="module")
def files() -> list[us.Survey]:
    # noise as large as a rare stratum
    return us.synthesize(stratified(), WholeFile(), us.Marginals(3.0), datasets=4).datasets


@pytest.mark.any_noise
def test_no_record_lacks_a_stratum(files):
    """Noise would put records into a cell for them, and no table could be made of the files."""
    cells = {cell.name: cell for cell in WholeFile().for_survey(stratified()).cells(stratified())}
    assert cells["h"].size == 2 + RARE
    drawn = pl.concat([file.raw.select("h").to_polars() for file in files])["h"]
    assert set(drawn) <= set(range(2 + RARE))
    published = files[0].codebook["h"]
    assert (published.blanks, published.missing) == (False, ())


@pytest.mark.any_noise
def test_a_stratum_of_one_record_does_not_stop_a_table(files):
    """It is centred on the mean of all, as R survey's `adjust` has it, unless the steward's design
    says something else."""
    assert {file.design.lonely_psu for file in files} == {"adjust"}
    alone = files[0].raw.to_polars().group_by("h").head(1)  # every stratum has one record
    table = us.tabulate(us.Survey(alone, files[0].design, files[0].codebook), "count", "a")
    assert (table["se"] > 0).all()
    assert us.tabulate(files, ["count"], "a", combine="partial").height == 3


@pytest.mark.parametrize("rule", ["certainty", "adjust", "average"])
def test_the_rule_of_the_design_stays(rule: LonelyPsu):
    assert WholeFile().published_design(us.Design(strata="h", lonely_psu=rule)).lonely_psu == rule
