"""Files that are too large for memory: read from a private copy, made in blocks, looked at in
samples, and the same release."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from ibis.expr.operations import InMemoryTable

import understudy as us
from understudy import one_blas_thread
from understudy.mechanisms.whole_file import records
from understudy.release import inside, outside, publish
from understudy.release.forecast import WITHIN, whole_file_cost
from understudy.release.recipe import read_recipe
from understudy.release.records_made import LARGE, progress, records_made
from understudy.survey import read

pytestmark = pytest.mark.usefixtures("outside_here")

RECIPE = """
[data]
path = "file.parquet"
codebook = "codebook.toml"

[design]
weight = "w"

[synthesis]
model = "WholeFile"
datasets = 2

[privacy]
mechanism = "Unweighted"

[tables]
statistics = ["count", "mean(pay)"]
by = ["sex"]
"""
CODEBOOK = """
[columns.sex]
role = "public"
type = "categorical"
levels = ["f", "m"]
blanks = false

[columns.pay]
role = "sensitive"
type = "integer"
bounds = [0, 200]
blanks = false

[columns.w]
role = "weight"
type = "continuous"
bounds = [1.0, 3.0]
blanks = false
"""
N = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(1)
    sex = rng.choice(["f", "m"], N)
    pay = np.clip(rng.normal(80 + 30 * (sex == "m"), 25), 0, 200).astype(int)
    frame = pl.DataFrame({"sex": sex, "pay": pay, "w": rng.uniform(1, 3, N).round(3)})
    frame.write_parquet(folder / "file.parquet")
    (folder / "codebook.toml").write_text(CODEBOOK)
    (folder / "release.toml").write_text(RECIPE)
    private = 'mechanism = "Marginals"\nepsilon = 3.0\ndelta = 1e-6'
    private = RECIPE.replace('mechanism = "Unweighted"', private)
    (folder / "private.toml").write_text(private)
    return folder


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.SMALLEST_POOL", 5_000)
    return iter(())


def released(folder: Path, name: str, recipe: str = "release.toml") -> Path:
    out = us.publish(
        folder / recipe, folder / name, say=lambda _: None, accept="large files are tested"
    )
    return Path(out)


def test_a_file_that_stays_on_disk_gives_the_same_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = released(folder, "usual")
    monkeypatch.setattr(read, "IN_MEMORY", 100)
    on_disk = released(folder, "on-disk")
    manifests = [json.loads((each / "manifest.json").read_text()) for each in (usual, on_disk)]
    assert manifests[0] == manifests[1]  # seed, and checksums of all public and internal files


def test_a_folder_of_parquet_files_stays_on_disk_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pl.read_parquet(folder / "file.parquet")
    frame.write_parquet(folder / "parts", partition_by=["sex"], mkdir=True)
    (folder / "parts.toml").write_text(RECIPE.replace("file.parquet", "parts"))
    in_memory, on_disk = [], []
    for values, kept in ((10**9, in_memory), (100, on_disk)):
        monkeypatch.setattr(read, "IN_MEMORY", values)
        kept.append(inside.prepare(read_recipe(folder / "parts.toml")))
    (ours,), (theirs,) = in_memory, on_disk
    assert ours.whole.raw.op().find(InMemoryTable)
    assert not theirs.whole.raw.op().find(InMemoryTable)
    assert ours.identity == theirs.identity
    numbers = [held.confidential_table.select(pl.col(pl.Float64)) for held in (ours, theirs)]
    assert numbers[0].to_numpy() == pytest.approx(numbers[1].to_numpy(), rel=1e-12, nan_ok=True)


@pytest.mark.any_noise
def test_a_release_in_blocks_is_whole_and_says_what_was_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "IN_MEMORY", 100)
    monkeypatch.setattr(records, "BLOCK", 250)
    monkeypatch.setattr(inside, "LOOKED_AT", 300)
    limited: list[bool] = []
    for stage in ("gather", "check_price"):  # where evidence and noisy tables are made
        usual = getattr(publish, stage)

        def noted(*arguments: Any, usual: Any = usual) -> Any:
            limited.append(bool(one_blas_thread._under_way))
            return usual(*arguments)

        monkeypatch.setattr(publish, stage, noted)
    out = released(folder, "blocks", "private.toml")
    assert limited == [True, True]  # BLAS has one thread
    release = us.open_release(out / "public.zip")
    assert [survey.n for survey in release] == [N, N]
    assert release.codebook["pay"].bounds == (0, 200)
    evidence = json.loads((out / "evidence.json").read_text())
    assert evidence["looked_at"] == 300
    assert evidence["records_in_file"] == N
    assert any("300 records of each file, drawn at random" in s for s in evidence["summary"])
    assert "300 records of each file" in (out / "report.html").read_text()
    assert "looked_at" not in (out / "public.html").read_text()
    # tables are of all records, on both sides
    frame = pl.read_parquet(folder / "file.parquet")
    counts = [cell for cell in evidence["table"]["cells"] if cell["statistic"] == "count"]
    sides = ("confidential", "released")
    sums = [sum(cell[side]["estimate"] for cell in counts) / 2 for side in sides]  # with a margin
    made = np.mean([survey.frame()["w_smoothed"].sum() for survey in release])
    assert sums == pytest.approx([frame["w"].sum(), made])


def test_files_are_packed_where_that_makes_them_smaller(tmp_path: Path) -> None:
    texts, noise = b"the same words " * 10_000, np.random.default_rng(1).bytes(150_000)
    (tmp_path / "texts").write_bytes(texts)
    (tmp_path / "noise").write_bytes(noise)
    (tmp_path / "empty").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in ("texts", "noise", "empty"):
            outside._pack(archive, name, tmp_path / name)
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("texts") == texts
        assert archive.read("noise") == noise
        assert archive.read("empty") == b""
        assert archive.getinfo("texts").compress_size < len(texts) / 50
        assert archive.getinfo("noise").compress_type == zipfile.ZIP_STORED


def test_the_progress_of_large_releases_is_told_in_tenths() -> None:
    said: list[str] = []
    tell = records_made(said.append)
    for part in range(1, 101):
        tell(part * LARGE // 100, LARGE)
    assert len(said) == 9
    assert said[0].startswith(f"  {LARGE // 10:,} of {LARGE:,} records are made; about ")
    tell = records_made(said.append)
    tell(500, 1_000)  # a small one is made before anyone could read it
    assert len(said) == 9
    assert progress(10, 40, 120.0).endswith("about 6 minutes for the others.")
    assert progress(30, 40, 120.0).endswith("about 40 seconds for the others.")


@pytest.mark.parametrize(
    ("records", "columns", "seconds"),
    [
        (100_000, 20, 49),  # simulated persons (bench/ten_million.py), five files each
        (1_000_000, 20, 72),
        (10_000_000, 20, 316),
        (14_400, 60, 152),  # persons of Hawaii
        (8_250, 32, 29),  # NAMCS
    ],
)
def test_the_forecast_of_whole_files_is_what_releases_took(
    records: int, columns: int, seconds: float
) -> None:
    """Seconds of processor time that were measured; the forecast gives a range from half to
    twice of what is said here."""
    about, size = whole_file_cost(records, columns, 5)
    assert about / WITHIN < seconds < about * WITHIN
    assert 0.6e9 < size < 2e9


def test_memory_does_not_grow_with_what_stays_on_disk() -> None:
    _, million = whole_file_cost(1_000_000, 20, 5)
    _, ten = whole_file_cost(10_000_000, 20, 5)
    assert million < 1.3e9
    assert ten < 2e9


def test_only_progress_of_the_outside_is_heard() -> None:
    heard: list[tuple[int, int]] = []
    for line in ("500 1000\n", "a line of some library\n", "5 x\n", "", "1 2 3\n", "1000 1000\n"):
        outside._pass_on(line, lambda *records: heard.append(records))
    assert heard == [(500, 1000), (1000, 1000)]


@pytest.mark.any_noise
@pytest.mark.usefixtures("outside_apart")
def test_the_outside_tells_of_its_records_from_its_own_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "understudy.release.publish.records_made", lambda _: lambda *records: heard.append(records)
    )
    out = released(folder, "apart", "private.toml")
    assert us.open_release(out).claim.kind == "formal"
    assert heard == [(N, 2 * N), (2 * N, 2 * N)]
