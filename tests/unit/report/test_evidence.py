"""The evidence document: its numbers against SciPy and by hand, its size and its bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from release_samples import BY, sample, whole_rows
from scipy import stats

import understudy as us
from understudy.report.cells import compared_cells
from understudy.report.curves import (
    bound_violins,
    level_shares,
    number_curves,
    weights_by_outcome,
)
from understudy.report.inside_facts import RiskSettings
from understudy.report.internal import internal_page
from understudy.report.numbers import digits, limits, percent, shown
from understudy.report.plain import plain
from understudy.report.sentences import claimed
from understudy.risk.measure import measure_of
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey
from understudy.utility.ecdf import ecdf_distance


@pytest.fixture(scope="module")
def evidence() -> dict[str, Any]:
    return sample().evidence()


def test_same_release_same_bytes(evidence: dict[str, Any]) -> None:
    again = sample().evidence()
    texts = [
        json.dumps(document, sort_keys=True, allow_nan=False) for document in (evidence, again)
    ]
    assert texts[0] == texts[1]


def test_size_does_not_follow_the_number_of_records(evidence: dict[str, Any]) -> None:
    small, large = (len(json.dumps(e)) for e in (evidence, sample(n=8000).evidence()))
    assert large < 1.05 * small


def test_density_and_ecdf_are_those_of_scipy() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(5.0, 2.0, 3000), rng.normal(5.5, 2.0, 3000)
    curves = number_curves(ours, [theirs], log=False)
    grid = np.array(curves["grid"])
    density = np.array(curves["synthetic"][0]["density"])
    spread = min(np.std(ours), stats.iqr(ours) / 1.349)  # Silverman (1986), eq. 3.31
    bandwidth = 0.9 * spread * 3000**-0.2
    kernel = stats.gaussian_kde(theirs, bandwidth / np.std(theirs, ddof=1))
    inside = (grid > grid[0] + 4 * bandwidth) & (grid < grid[-1] - 4 * bandwidth)
    # values sit in cells of a 160th of the range, so curves agree to about 1 %
    np.testing.assert_allclose(density[inside], kernel(grid)[inside], rtol=0.02, atol=2e-3)
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(0.998, abs=2e-3)
    ecdf = stats.ecdf(theirs).cdf.evaluate(grid)
    # the grid is rounded to six digits, so a record may fall on its other side
    np.testing.assert_allclose(curves["synthetic"][0]["ecdf"], ecdf, atol=1.1 / 3000)


def test_log_scale_only_where_every_value_is_positive() -> None:
    values = np.exp(np.random.default_rng(1).standard_normal(200))
    assert number_curves(values, [values], log=True)["scale"] == "log"
    assert number_curves(values, [values - 5], log=True)["scale"] == "linear"
    constant = number_curves(np.ones(30), [np.ones(30)], log=False)
    assert np.isfinite(constant["confidential"]["density"]).all()


def test_level_shares_with_missing_and_many_levels() -> None:
    ours = pl.Series(["a", "a", "b", None])
    shares = level_shares(ours, [pl.Series(["b", "b", "b", "c"])])
    assert shares["levels"] == ["Missing", "a", "b", "c"]
    assert shares["confidential"] == [0.25, 0.5, 0.25, 0.0]
    assert shares["synthetic"] == [[0.0, 0.0, 0.75, 0.25]]
    many = level_shares(pl.Series([str(k) for k in range(50)]), [pl.Series(["0"])])
    assert len(many["levels"]) == 31
    assert many["confidential"][-1] == pytest.approx(0.4)


def test_violins_count_every_record_once() -> None:
    before = np.array([0.0, 0.2, 1.0, 5.0, np.inf])
    after = np.minimum(before, 0.5)
    violins = bound_violins(before, after, 0.5)
    for violin, infinite in ((violins["before"], 1), (violins["after"], 0)):
        assert sum(violin["share"]) + violin["under"] == pytest.approx(1 - infinite / 5)
        assert violin["not_finite"] == infinite
    assert violins["before"]["largest"] == 5.0
    assert violins["after"]["median"] == 0.5
    none = bound_violins(np.zeros(3), np.zeros(3), np.inf)
    assert none["after"]["under"] == 1.0


def test_weights_by_outcome_are_quantiles_within_classes() -> None:
    rng = np.random.default_rng(2)
    outcome, weight = rng.permutation(240).astype(float), rng.uniform(size=240)
    quantiles = weights_by_outcome(outcome, weight)
    assert len(quantiles["outcome"]) == 24
    first = weight[outcome < 10]
    np.testing.assert_allclose(
        quantiles["weight"][0], np.quantile(first, [0.05, 0.25, 0.5, 0.75, 0.95]), rtol=1e-5
    )
    assert quantiles["outcome"][0] == 4.5


def test_codes_that_a_file_holds_as_decimals_are_those_of_the_released_one() -> None:
    row = {"statistic": "count", "estimate": 4.0, "se": 1.0, "lower": 2.0, "upper": 6.0, "note": ""}
    ours = pl.DataFrame([row | {"g": 1.0}, row | {"g": 2.0}])
    theirs = pl.DataFrame([row | {"g": 1}, row | {"g": 2}])
    rows = compared_cells(ours, theirs, ("g",), Codebook())
    assert [(each["cell"], each["difference"]) for each in rows] == [("1", 0.0), ("2", 0.0)]
    survey = us.Survey(pl.DataFrame({"g": [1.0, 2.0, None, 2.0], "h": [0.5, 1.0, 1.0, 1.0]}))
    levels = us.tabulate(survey, "count", ["g", "h"], margins=True)
    assert set(levels["g"]) == {"1", "2", "Missing", "All"}
    assert set(levels["h"]) == {"0.5", "1.0", "All"}


def test_cells_are_matched_and_compared() -> None:
    head = {"g": ["a", "b", None], "statistic": ["mean(y)"] * 3}
    ours = pl.DataFrame(
        {**head, "estimate": [10.0, 5.0, 1.0], "se": [2.0, 0.0, None],
         "lower": [6.0, 5.0, None], "upper": [14.0, 5.0, None]}
    )  # fmt: skip
    theirs = pl.DataFrame(
        {"g": ["b", "a", "c"], "statistic": ["mean(y)"] * 3, "estimate": [5.0, 13.0, 2.0],
         "se": [1.0, 1.0, 1.0], "lower": [3.0, 11.0, 0.0], "upper": [7.0, 15.0, 4.0]}
    )  # fmt: skip
    rows = {row["cell"]: row for row in compared_cells(ours, theirs, ("g",), Codebook())}
    assert list(rows) == ["a", "b", "Missing", "c"]
    assert rows["a"]["difference"] == 1.5
    assert rows["a"]["overlap"] == pytest.approx((3 / 8 + 3 / 4) / 2)
    assert rows["b"]["difference"] == 0.0
    assert rows["Missing"]["released"]["estimate"] is None
    assert rows["c"]["difference"] is None


def test_of_a_large_file_a_sample_is_looked_at(evidence: dict[str, Any]) -> None:
    """Shares and weights are those of every third record; tables and risks of all."""
    drawn = replace(sample(), looked_at=3)
    half = drawn.evidence()
    rows = np.arange(0, drawn.confidential.n, 3)
    assert (evidence["looked_at"], half["looked_at"]) == (None, len(rows))
    salary = drawn.confidential.frame()["salary"].to_numpy()[rows]
    grid = np.array(half["distributions"][0]["grid"])
    ecdf = stats.ecdf(salary).cdf.evaluate(grid)
    assert half["distributions"][0]["confidential"]["ecdf"] == pytest.approx(ecdf, abs=1e-3)
    weights = drawn.record_weights[rows]
    assert half["records"]["weights"]["mean"] == pytest.approx(weights.mean(), rel=1e-3)
    for whole in ("table", "risk", "regression", "records_in_file", "records_confidential"):
        assert half[whole] == evidence[whole]
    said = [sentence for sentence in half["summary"] if sentence not in evidence["summary"]]
    assert f"{len(rows):,} records of each file, drawn at random" in said[-1]


def test_every_part_is_there(evidence: dict[str, Any]) -> None:
    of = sample()
    cells = evidence["table"]["cells"]
    assert len(cells) == of.confidential_table.height
    assert cells[0]["cell"] == "1, Female"
    worst = max(abs(cell["difference"]) for cell in cells)
    assert digits(worst, 2) in evidence["summary"][3]
    assert [panel["known"] for panel in evidence["risk"]["panels"]] == [list(BY), ["field"]]
    assert evidence["records"]["per_draw"] == 0.5  # 3 / (2 * 3)
    assert evidence["chains"]["least_ess"] == 700.0
    assert len(evidence["regression"]["rows"]) == 4
    assert {row["cell"] for row in evidence["regression"]["rows"]} >= {"Intercept"}
    assert len(evidence["utility"]["propensity"]["ratio"]) == 3
    assert evidence["distributions"][0]["scale"] == "log"
    assert evidence["claim"]["text"] == str(of.claim)


def test_a_column_may_be_empty_in_one_file_or_in_all() -> None:
    """A question that few records answer; the page draws the files that have a value."""
    of = whole_rows()
    first, second = of.datasets
    blank = Survey(
        second.frame().with_columns(salary=pl.lit(None, pl.Float64)), second.design, second.codebook
    )
    some = replace(of, datasets=[first, blank]).evidence()
    curves, closeness = some["distributions"][0], some["utility"]["columns"][0]
    assert len(curves["synthetic"]) == 1
    assert closeness["U_m"] == pytest.approx(
        ecdf_distance(of.confidential.frame()["salary"], first.frame()["salary"])[0], rel=1e-5
    )
    assert closeness["missing_synthetic"] == blank.n
    none = replace(of, datasets=[blank, blank]).evidence()
    assert "salary" not in [column["column"] for column in none["distributions"]]
    assert next(c for c in none["levels"] if c["column"] == "salary")["synthetic"][0][-1] == 1.0
    assert "salary" in internal_page(json.loads(json.dumps(none)))


def test_whole_rows_show_the_confidential_risk_only_and_say_why() -> None:
    document = whole_rows().evidence()
    releases = [panel["release"] for panel in document["risk"]["panels"][0]["releases"]]
    assert releases == ["confidential"]
    assert "do not correspond" in document["risk"]["why"]
    assert "correspond to nobody" in " ".join(document["summary"])


OWN = """
import polars as pl

from understudy.risk.measure import RiskMeasure


class Alone(RiskMeasure):
    name = "alone"
    title = "Uniqueness"
    phrase = "a uniqueness"
    meaning = "A record is at risk when it is alone with its known columns."
    of_release = False
    of_topcoding = False
    by_record = False

    def risks(self, confidential, released, intruder):
        frame = confidential.frame()
        return {
            known: 1.0 / frame.select(pl.len().over(list(known))).to_series().to_numpy()
            for known in intruder.known
        }
"""


def test_a_risk_measure_of_ones_own_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    mine = measure_of("mine.py:Alone", tmp_path)
    settings = RiskSettings((("field", "gender"),), ("salary",), measure=mine)
    document = sample(n=60, risk=settings).evidence()
    assert [panel["release"] for panel in document["risk"]["panels"][0]["releases"]] == [
        "confidential"
    ]
    assert document["risk"]["profile"][0]["mean"] == pytest.approx(6 / 60)  # six cells, 60 records
    page = internal_page(document)
    for said in ("<h2>Uniqueness</h2>", mine.meaning, "with a uniqueness above 0.5", "alone"):
        assert said in page


def test_refusals_become_words() -> None:
    document = sample(
        m=1, bounds=None, chains=None, risk=None, regression="log(salary) ~ nothing"
    ).evidence()
    assert "nothing" in document["regression"]["refused"]
    assert document["risk"] is None
    assert document["records"] is None
    assert document["chains"] is None


def test_bad_chains_are_said_first() -> None:
    of = sample()
    assert of.chains is not None
    bad = of.chains.__class__(
        ("a", "b"), np.array([1.2, np.nan]), np.array([50.0, 60.0]), np.ones(2), 7, 4, 2000, 1
    )
    document = sample(chains=bad).evidence()
    assert "did not do well" in document["summary"][-1]
    assert len(document["chains"]["failures"]) == 3
    assert document["chains"]["each"][1]["rhat"] is None


def test_chains_that_serve_the_files_alone_are_said_to_be_such() -> None:
    of = sample()
    assert of.chains is not None
    slow = replace(of.chains, rhat=np.array([1.0, 1.03, 1.0]), shortfall=np.array([0.0, 0.031, 0]))
    document = sample(chains=slow).evidence()
    assert document["chains"]["failures"] == []
    assert "R-hat of `b` is 1.030" in document["summary"][-1]
    assert "at most 3.1 % too small" in document["summary"][-1]
    page = internal_page(document)
    assert "is 1.030, not below 1.01" in page
    assert "at most 3.1 % too small" in page.replace("\xa0", " ")


def test_numbers_in_print() -> None:
    assert shown(1234567.891, 234.5) == "1,234,568"
    assert shown(0.012345, 0.00123) == "0.01235"
    assert shown(-0.0001, 1.0) == "0.00"
    assert shown(None) == "–"
    assert shown("inf") == "∞"
    assert percent(0.0001) == "under 0.1 %"
    assert percent(1.0) == "100.0 %"
    assert limits({"se": 1.0, "lower": -5e9, "upper": 5e9}) == "over ±100 SE"
    assert limits({"se": 0.5, "lower": 1.0, "upper": 3.0}) == "1.000 to 3.000"
    assert claimed(10.8) == "10.8"
    assert claimed(3.0) == "3"
    assert claimed(3.4601285309041336) == "3.461"  # rounded up, for a claim is a bound
    assert plain({"a": np.array([np.nan, np.inf, -0.0])}) == {"a": [None, "inf", 0.0]}
