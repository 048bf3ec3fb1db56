"""What the commands print and write for the public, about neighbouring files.

Lines and files that carry the mark `internal` are for the data holder, and are left out by it.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from cases import CASES
from command_line import Ran, understudy
from neighbours import changed, extreme
from releases import Case, base, fixed_output
from served import BASE, NEIGHBOURS, served
from web_samples import question

import chance
from understudy.drawing import INTERNAL
from understudy.release import check, publish
from understudy.release.outside import files_in, make_public
from understudy.survey.survey import Survey
from understudy.survey.write import write_survey

CASE = next(case for case in CASES if str(case) == "Multinomial-Modips")
KEPT_INSIDE = ("report.html", "evidence.json", "manifest.json")
LEDGER = '[ledger]\nplace = "ledger.db"\ncap = "40"\n'


def said(ran: Ran, folder: Path) -> list[str]:
    """The lines that do not carry the mark, with the exit code."""
    lines = [str(ran.returncode), *ran.stdout.splitlines(), *ran.stderr.splitlines()]
    return [line.replace(str(folder), "FOLDER") for line in lines if INTERNAL not in line]


def written(folder: Path, frame: pl.DataFrame, case: Case = CASE) -> Path:
    """The recipe of a release of this file."""
    (folder / "codebook.toml").write_text(case.codebook, encoding="utf-8")
    (folder / "release.toml").write_text(case.recipe(".parquet") + LEDGER, encoding="utf-8")
    write_survey(Survey(frame), folder / "file.parquet")
    return folder / "release.toml"


def released(folder: Path, frame: pl.DataFrame) -> dict[str, object]:
    """All that `understudy release` shows and writes for a file, but for what stays inside."""
    recipe = written(folder, frame)
    with fixed_output(), chance.seeded_chance(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.release.envelope.write_survey", write_survey)
        patch.setattr(publish, "run_outside", make_public)  # the same bytes (test_public_files.py)
        words = {
            "dry run": understudy("release", str(recipe), "--dry-run"),
            "release": understudy("release", str(recipe), "--out", str(folder / "out")),
            "again": understudy("release", str(recipe), "--out", str(folder / "out")),
        }
    printed: dict[str, object] = {name: said(ran, folder) for name, ran in words.items()}
    for name in files_in(folder / "out"):
        content = (folder / "out" / name).read_bytes()
        assert (INTERNAL.encode() in content) <= (name in KEPT_INSIDE), name
        if name not in KEPT_INSIDE:
            printed[name] = content
    return printed


def pair(folder: Path, other: pl.DataFrame) -> list[str]:
    """What differs between the base file's release and that of the other."""
    made = []
    for name, frame in (("one", base()), ("other", other)):
        (folder / name).mkdir()
        made.append(released(folder / name, frame))
    ours, theirs = made
    assert set(ours) == set(theirs)
    assert {"dry run", "release", "again", "public.zip", "synthetic/1.parquet"} <= set(ours)
    return [name for name, output in ours.items() if output != theirs[name]]


@pytest.mark.any_noise
def test_a_release_of_a_neighbour_prints_and_writes_the_same(tmp_path: Path) -> None:
    assert pair(tmp_path, extreme(CASE)) == []


@pytest.mark.any_noise
def test_refusals_about_records_are_marked_and_say_nothing_else(tmp_path: Path) -> None:
    """A value that is missing, or out of its bounds: the one sentence carries the mark."""
    case = next(case for case in CASES if str(case) == "Beta-PerturbedHistogram")
    for number, value in enumerate((None, 1e9)):
        folder = tmp_path / str(number)
        folder.mkdir()
        recipe = written(folder, changed(base(), 5, "share", value), case)
        recipe.write_text(recipe.read_text().replace('missing = "model"\n', ""))
        for words in (["check"], ["release"], ["release", "--dry-run"]):
            ran = understudy(*words, str(recipe))
            assert INTERNAL in ran.stderr
            assert said(ran, folder) == ["2"]
        assert not (folder / "ledger.db").exists()


def test_a_dry_run_does_not_say_that_the_unit_is_published(tmp_path: Path) -> None:
    case = next(case for case in CASES if str(case) == "WholeFile-Marginals-keep-unit")
    ran = understudy("release", str(written(tmp_path, base(), case)), "--dry-run")
    assert "Published as they are: area." in ran.stdout


def test_a_line_without_the_mark_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run that tells of the records."""
    sound = check.check_records

    def talking(inside: publish.Inside) -> pl.DataFrame:
        print("Highest rank:", inside.confidential.frame()["rank"].max())
        return sound(inside)

    monkeypatch.setattr(check, "check_records", talking)
    printed = []
    for number, frame in enumerate((base(), extreme(CASE))):
        (tmp_path / str(number)).mkdir()
        recipe = written(tmp_path / str(number), frame)
        printed.append(said(understudy("release", str(recipe), "--dry-run"), recipe.parent))
    assert printed[0] != printed[1]


@pytest.mark.any_noise
def test_a_question_from_the_command_line_says_the_same_of_neighbours(tmp_path: Path) -> None:
    """`understudy verify`: the price, the sentence and the receipt's file."""
    (tmp_path / "question.json").write_text(json.dumps(question()), encoding="utf-8")
    (tmp_path / "refused.json").write_text(json.dumps(question(variable="wealth")))
    printed = []
    for number, frame in enumerate((BASE, NEIGHBOURS["not a number"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        with served(folder, frame) as site:
            to = ("--server", site.url, "--key", site.keys["ann"])
            asked = (
                ("question.json", "--price"),
                ("question.json", "--yes", "--receipt", str(folder / "receipt.json")),
                ("refused.json", "--yes"),
            )
            ran = [understudy("verify", str(tmp_path / f), *more, *to) for f, *more in asked]
        lines = [said(process, folder) for process in ran]
        assert [line[0] for line in lines] == ["0", "0", "2"]
        printed.append((lines, (folder / "receipt.json").read_bytes()))
    assert all(texts == printed[0] for texts in printed)
