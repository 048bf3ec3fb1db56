"""A rehearsal is the server's own code on a public file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import understudy
from verification_samples import BOOK, make_frame, make_query, make_survey
from web_samples import released_files

from understudy.errors import Refused
from understudy.survey.codebook_text import write_codebook
from understudy.survey.survey import Survey
from understudy.verify import answer as answer_module
from understudy.verify.rehearsal import rehearse

FRAME = make_frame(400, seed=3)
MEAN = float((FRAME["income"] * FRAME["w"]).sum() / FRAME["w"].sum())


@pytest.fixture(scope="module")
def survey() -> Survey:
    return make_survey(FRAME)


@pytest.mark.any_noise
def test_the_files_own_estimate_is_that_of_all_its_records(survey: Survey) -> None:
    near = make_query(estimate=MEAN + 1.0, se=1.0)
    made = rehearse(near, survey, times=2)
    assert made.estimate == pytest.approx(MEAN, rel=1e-12)
    assert made.inside
    assert not rehearse(make_query(estimate=MEAN + 3.0, se=1.0), survey, times=1).inside


@pytest.mark.any_noise
def test_answers_are_those_that_the_numbers_of_the_partitions_make(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With sums that are known: says_right is the share of true verdicts, by hand."""
    sums = iter([0, 10, 10, 10])
    monkeypatch.setattr(answer_module, "noisy_sum", lambda *_: float(next(sums)))
    query = make_query(measure="agreement", estimate=MEAN, se=1.0)
    made = rehearse(query, survey, times=4)
    assert made.answers["says_inside"].to_list() == [False, True, True, True]
    assert made.says_right == 0.75
    assert np.array_equal(made.quantiles((0.0, 1.0)), np.sort(made.answers["median"])[[0, -1]])
    assert made.figure().count("<path") > 5


@pytest.mark.any_noise
def test_released_files_give_the_estimate_and_influence_is_rehearsed_too(survey: Survey) -> None:
    files = released_files(FRAME)._surveys
    query = make_query(estimate=None, se=None, partitions=None)
    assert query.measure == "influence"
    made = rehearse(query, survey, files, times=3)
    assert made.answers.height == 3
    assert made.terms.estimate == pytest.approx(MEAN, rel=0.1)


def test_what_cannot_be_rehearsed_is_refused(survey: Survey) -> None:
    with pytest.raises(Refused, match="from 1 to 10000 answers"):
        rehearse(make_query(), survey, times=0)
    with pytest.raises(Refused, match="about one number"):
        rehearse(make_query(estimate=None, se=None, by=["region"]), survey)


@pytest.mark.any_noise
def test_the_command_rehearses_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.write_parquet("last.parquet")
    write_codebook(BOOK, "book.toml")
    Path("q.json").write_text(json.dumps(make_query(estimate=MEAN).model_dump(mode="json")))
    words = ["plan", "--rehearse", "last.parquet", "--codebook", "book.toml", "--design"]
    words += ["weight=w", "--times", "20", "--figure", "f.svg", "--out", "answers.csv"]
    ran = understudy(*words, "--question", "q.json")
    assert ran.returncode == 0, ran.stderr
    assert f"The file's own estimate is {MEAN:.6g}, inside the tolerance" in ran.stdout
    assert pl.read_csv("answers.csv").height == 20
    assert Path("f.svg").read_text().startswith("<?xml")
    for missing, sentence in (
        (words, "A rehearsal needs a --question"),
        ([*words, "--question", "no.json"], "There is no file `no.json`"),
        (["plan", "--se", "1"], "Give --estimate and --se, or a file to --rehearse"),
    ):
        ran = understudy(*missing)
        assert (ran.returncode, sentence in ran.stderr) == (2, True), ran.stderr
