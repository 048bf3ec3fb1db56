"""`Release.draw` and `understudy draw`: further files that open as a release."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import understudy as us
from understudy.cli.main import app
from understudy.envelope import plain_draw
from understudy.errors import Refused
from understudy.release.declared import design_to
from understudy.release.open import Release
from understudy.release.outside import files_in, write_json
from understudy.release.release_facts import SCHEMA, checksum
from understudy.survey.codebook import Codebook, Column

M, N = 3, 800


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of three small files, as the outside writes it, without pages."""
    rng = np.random.default_rng(8)
    works = rng.random(N) < 0.6
    frame = pl.DataFrame(
        {
            "works": np.where(works, "yes", "no"),
            "age": np.where(works, rng.integers(20, 65, N), rng.integers(16, 90, N)),
        }
    )
    columns = {
        "works": Column("works", "sensitive", "categorical", levels=("no", "yes"), blanks=False),
        "age": Column("age", "sensitive", "integer", bounds=(16, 89), blanks=False),
    }
    survey = us.Survey(frame, codebook=Codebook(columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.mechanisms.whole_file.fit.POOL", 5_000)
        result = us.synthesize(survey, us.WholeFile(), us.Unweighted(), datasets=M, seed=2)
    folder = tmp_path_factory.mktemp("release")
    (folder / "synthetic").mkdir()
    names = [f"synthetic/{number}.parquet" for number in range(1, M + 1)]
    for name, dataset in zip(names, result.datasets, strict=True):
        us.write_survey(dataset, folder / name)
    (folder / "claim.json").write_text(result.claim.to_json())
    (folder / "draws.json").write_text(json.dumps({"draws": plain_draw(result.draws)}))
    facts = {
        "schema": SCHEMA, "title": "A small survey", "kind": "partial", "files": names,
        "design": design_to(us.Design()), "statistics": ["mean(age)"], "by": [],
        "checksums": {name: checksum(folder / name) for name in files_in(folder)},
    }  # fmt: skip
    write_json(folder / "release.json", facts)
    return us.open_release(folder)


def test_each_set_gives_a_file_and_tables_combine_them(opened: Release) -> None:
    more = opened.draw(4 * N)
    assert [file.n for file in more] == [4 * N] * M
    assert [(file.dataset, file.stands_for) for file in more] == [(k, 0.25) for k in (1, 2, 3)]
    table, both = (us.tabulate(files, "mean(age)") for files in (opened, more))
    assert both["estimate"][0] == pytest.approx(table["estimate"][0], abs=0.5)
    assert both["se"][0] == pytest.approx(table["se"][0], rel=0.1)
    joined = us.tabulate([*opened, *more], "mean(age)", combine="partial")
    wanted = (table["estimate"][0] + 4 * both["estimate"][0]) / 5
    assert joined["estimate"][0] == pytest.approx(wanted)
    with pytest.raises(Refused, match="at least 1"):
        opened.draw(0)


def test_the_command_writes_a_folder_that_opens(opened: Release, tmp_path: Path) -> None:
    assert opened.folder is not None
    archive = shutil.make_archive(str(tmp_path / "public"), "zip", opened.folder)
    out = tmp_path / "older"
    ask = ["draw", archive, "--size", "500", "--where", "age > 64", "--out", str(out)]
    ran = CliRunner().invoke(app, ask)
    assert ran.exit_code == 0, ran.output
    assert "nothing was spent" in ran.output
    older = us.open_release(out)
    assert len(older) == M
    assert all((file.frame()["age"] > 64).all() for file in older)
    estimate = us.tabulate(older, "mean(age)").row(0, named=True)
    alone = us.tabulate(opened, "mean(age)", where="age > 64").row(0, named=True)
    assert estimate["estimate"] == pytest.approx(alone["estimate"], abs=1.0)
    assert estimate["se"] == pytest.approx(alone["se"], rel=0.35)
    with pytest.raises(Refused, match="cannot be estimated"):
        us.tabulate(older, "count")
    again = CliRunner().invoke(app, ask)
    assert "exists already" in str(again.exception)
    # what was drawn can be drawn from
    assert us.open_release(out).draw(50)[0].n == 50


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "public.zip").write_text("not a zip file")
    with pytest.raises(Refused, match="not a whole zip file"):
        us.open_release(tmp_path / "public.zip")
