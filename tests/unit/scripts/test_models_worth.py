"""The study of where models are worth it: errors by hand, one run on a made-up file, its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from bench import models_worth as study
from bench import models_worth_page as pages

RUN = study.Run("CE", 900, 4, "FBS", "NoisyMoments", 3.0, 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A population of 6,000 in place of one of the files."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(1, 3, 6000), rng.integers(1, 3, 6000)
    y = np.exp(8 + 0.4 * a - 0.2 * b + 0.6 * rng.standard_normal(6000))
    frame = pl.DataFrame({"pay": y, "a1": a, "b1": b, "wt": rng.uniform(1, 3, 6000)})
    frame.write_parquet(tmp_path / "made.parquet")
    made = study.File("made.parquet", "pay", ("a1", "b1"), "wt", 900)
    monkeypatch.setattr(study, "FILES", {"CE": made})
    study.population.cache_clear()
    return tmp_path


def test_errors_and_coverage_by_hand() -> None:
    """Two cells: a count 10 % off and covered, one that is not there; means right and 20 % off."""
    truth = pl.DataFrame(
        {
            "a": ["1", "1", "1", "1"],
            "b": ["1", "1", "2", "2"],
            "statistic": ["count", "mean(y)", "count", "mean(y)"],
            "truth": [100.0, 50.0, 200.0, 40.0],
        }
    )
    made = pl.DataFrame(
        {
            "a": ["1", "1", "1"],
            "b": ["1", "1", "2"],
            "statistic": ["count", "mean(y)", "mean(y)"],
            "estimate": [110.0, 50.0, 32.0],
            "lower": [95.0, 49.0, 30.0],
            "upper": [125.0, 51.0, 39.0],
        }
    )
    counts, means, covered = study.judged(made, truth)
    assert counts == pytest.approx(np.sqrt((0.1**2 + 1) / 2))
    assert means == pytest.approx(np.sqrt(0.2**2 / 2))
    assert covered == 0.5


def test_samples_and_past_files_share_no_record_and_weigh_the_population(folder: Path) -> None:
    sample, past, whole = study.drawn("CE", folder, 0)
    assert sample.n == past.n == 900
    values = [set(file.frame()["y"]) for file in (sample, past)]
    assert len(values[0] & values[1]) < 10  # those that were drawn in to a bound
    assert sample.frame()["w"].sum() == pytest.approx(whole["w"].sum(), rel=0.05)
    truth = study.true_cells(whole, 900)
    assert study.judged(study.table(sample), truth)[:2] == pytest.approx((0.0, 0.0), abs=0.2)
    kept = truth.filter(statistic="count")["truth"].sum()
    assert kept == pytest.approx(whole["w"].sum())


def test_one_run_is_one_row_and_is_kept(folder: Path, tmp_path: Path) -> None:
    done = study.compute(replace(RUN, mechanism="Unweighted", epsilon=None), folder)
    assert (done.outcome, done.n, done.cells) == ("released", 900, 4)
    assert done.counts is not None
    assert done.own_counts is not None
    assert done.counts < 3 * done.own_counts
    assert done.U_m is not None
    assert done.U_m < 0.15
    refused = study.compute(replace(RUN, model="Mixture"), folder)
    assert refused.outcome == "refused"
    assert "not for mixtures" in refused.words
    path = tmp_path / "runs.csv"
    for run in (done, refused):
        study.keep(run, path)
    read = study.read_runs(path)
    assert [run.key for run in read] == [done.key, refused.key]
    assert read[0].counts == pytest.approx(done.counts, rel=1e-3)
    assert read[1].words == refused.words
    assert read[1].counts is None


def test_cheap_runs_come_first_and_slow_kinds_are_skipped() -> None:
    planned = list(study.planned_runs(1))
    assert len({run.key for run in planned}) == len(planned)
    kinds = list(dict.fromkeys((run.model, run.mechanism) for run in planned))
    assert kinds.index(("FBS", "NoisyMoments")) < kinds.index(("FBS", "past file"))
    assert kinds.index(("FBP", "no history")) < kinds.index(("Beta", "past file"))
    assert all(run.words for run in planned if run.model == "Mixture" and "file" in run.mechanism)
    slow = replace(RUN, seconds=study.MOST_SECONDS + 1, outcome="released")
    done = {slow.key: slow}
    assert "301 seconds" in study.too_slow(replace(RUN, file="api", epsilon=1.0), done)
    assert study.too_slow(replace(RUN, mechanism="past file"), done) == ""


def result(mechanism: str, epsilon: float | None, ratio: float, model: str = "FBS") -> study.Run:
    done = {"outcome": "released", "counts": 0.1 * ratio, "means": 0.2 * ratio}
    own = {"own_counts": 0.1, "own_means": 0.2, "covered": 0.95, "U_m": 0.02, "seconds": 3.0}
    return replace(RUN, model=model, mechanism=mechanism, epsilon=epsilon, **done, **own)  # type: ignore[arg-type]


def test_the_page_says_what_did_best_and_what_has_no_result() -> None:
    runs = [
        result("NoisyMoments", 3.0, 1.2),
        result("past file", 3.0, 1.4),
        result("Marginals", 3.0, 2.0, "WholeFile"),
        result("Unweighted", None, 0.5),
        replace(RUN, model="Mixture", mechanism="past file", words="hours"),
    ]
    text = pages.page(runs)
    assert "at epsilon 3 FBS (NoisyMoments), FBS (past file), 1.2 times the sample's error" in text
    assert "| FBS | NoisyMoments | - | - | 1.2, 1.2 (0.95) | - | - | 0.02 | 3 |" in text
    assert "- Mixture (past file) at 3: hours" in text
    assert "| FBS | Unweighted | - | - | - | - | 0.5, 0.5 (0.95) |" in text
    assert pages.advice(runs[:1]) == "Too few runs for advice."
    drawn = pages.figure("CE", runs)
    assert [len(axis.lines) for axis in drawn.axes] == [5, 5]  # four settings, and the sample


def test_the_kept_page_is_that_of_the_kept_runs() -> None:
    kept = pages.FOLDER / "README.md"
    assert kept.read_text(encoding="utf-8") == pages.page(study.read_runs())
