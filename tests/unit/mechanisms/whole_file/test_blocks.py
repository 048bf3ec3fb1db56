"""Files that are made block by block are those that are made at once: the same tables, the same
order within cells, the same weights."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.mechanisms.whole_file import records
from understudy.mechanisms.whole_file.files import file_maker, published_codebook, synthetic_files
from understudy.mechanisms.whole_file.noisy_file import NoisyFile, NoisySet
from understudy.mechanisms.whole_file.records import Block, Synthesizer
from understudy.mechanisms.whole_file.weights import (
    FileWeights,
    calibrated,
    public_sums,
    smoothed,
    table_places,
)
from understudy.mechanisms.whole_file.within_cells import score_laws
from understudy.survey.codebook import Codebook, Column
from understudy.survey.engine import scratch
from understudy.tables.ruled_file import RuleEffects

N = 6_000
CODEBOOK = Codebook(
    {
        "school": Column(
            "school", "sensitive", "categorical", levels=("a", "b", "c"), blanks=False
        ),
        "home": Column("home", "sensitive", "categorical", levels=(1, 2), blanks=False),
        "pay": Column("pay", "sensitive", "integer", bounds=(0, 399), special=(0,), blanks=False),
        "w": Column("w", "weight", "continuous", bounds=(1, 50), rounding=0.1, blanks=False),
    },
    population_by={"home": {1: 40_000.0, 2: 60_000.0}},
    impossible=("pay > 0 and pay < w",),
)
DESIGN = us.Design(weight="w")


@pytest.fixture(scope="module")
def result() -> us.Synthesis:
    """The engine without noise: what is drawn of it has a seed."""
    rng = np.random.default_rng(3)
    school, home = rng.integers(0, 3, N), rng.integers(1, 3, N)
    pay = np.clip(rng.normal(50 + 60 * school, 50), 1, 399).astype(int)
    frame = pl.DataFrame(
        {
            "school": np.array(["a", "b", "c"])[school],
            "home": home,
            "pay": np.where(rng.random(N) < 0.1, 0, pay),
            "w": np.round(np.clip(rng.gamma(4, 2 + school), 1, 50), 1),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.mechanisms.whole_file.fit.POOL", 20_000)
        survey = us.Survey(frame, DESIGN, CODEBOOK)
        return us.synthesize(survey, us.WholeFile(), us.Unweighted(), datasets=2, seed=5)


@pytest.fixture(scope="module")
def maker(result: us.Synthesis) -> Synthesizer:
    noisy, ground = result.output.noisy, result.ground  # type: ignore[attr-defined]
    return file_maker(noisy, ground.codebook, ground.design, result.chance)


def blocks_of(maker: Synthesizer, size: int, monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    monkeypatch.setattr(records, "BLOCK", size)
    return list(maker.blocks(0, np.random.default_rng(8)))


def test_blocks_have_the_tables_of_the_whole_file(
    maker: Synthesizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coarse cells are those of one block, record for record; a fine cell differs by less than one
    record for each block, as whole numbers of the same shares do."""
    (whole,) = blocks_of(maker, N, monkeypatch)
    parts = blocks_of(maker, 1_000, monkeypatch)
    assert [part.frame.height for part in parts] == [1_000] * 6
    rows = np.sort(np.concatenate([part.rows for part in parts]))
    assert rows.tolist() == np.sort(whole.rows).tolist()
    for part in parts:  # each is a small file of the same tables: every sixth record
        ends = np.searchsorted(whole.rows, part.rows)
        assert all(0 <= b - a <= 1_000 for a, b in pairwise(ends))
        counts = np.bincount(part.rows, minlength=rows.max() + 1)
        assert np.abs(counts - np.bincount(whole.rows, minlength=rows.max() + 1) / 6).max() < 1
    position = maker.noisy.columns.index("pay")
    cells, coarse = maker.cells[position], maker.noisy.coarse[position]
    shares = maker.shares[0][position]
    drawn = np.zeros(cells.size)
    for part in parts:
        drawn += np.bincount(cells.codes(part.frame["pay"]), minlength=cells.size)
    changed = sum(part.effects.changed for part in parts)
    expected = np.bincount(coarse, drawn)[coarse] * shares
    assert np.abs(drawn - expected).max() <= len(parts) + changed


def test_numbers_within_cells_go_by_the_other_columns_in_every_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How far a number is from the mean of its coarse cell, by school: as in the file made at once.
    In blocks of one school each there would be no difference."""
    rng = np.random.default_rng(4)
    school = rng.integers(0, 3, N)
    age = np.clip(rng.normal(10 * school + 20, 8, N), 0, 59).astype(np.int64)
    coarse = np.arange(60, dtype=np.int32) // 20
    table = np.bincount(school * 3 + coarse[age], minlength=9).reshape(3, 3).astype(float)
    one_way = [np.bincount(school).astype(float), np.bincount(age, minlength=60).astype(float)]
    maps = (np.arange(3, dtype=np.int32), coarse)
    sets = (NoisySet(one_way, [table]),)
    noisy = NoisyFile(("school", "age"), maps, ((0, 1),), (1.0, 1.0), (1.0,), sets, N)
    codebook = Codebook(
        {
            "school": Column("school", type="categorical", levels=(0, 1, 2), blanks=False),
            "age": Column("age", type="integer", bounds=(0, 59), blanks=False),
        }
    )
    maker = file_maker(noisy, codebook, us.Design(), chance_of(1))

    def apart(blocks: list[Block]) -> np.ndarray:
        made = pl.concat([block.frame for block in blocks])
        rest = pl.col("age") - pl.col("age").mean().over(pl.col("age") // 20)
        by = made.select("school", rest).group_by("school").agg(pl.col("age").mean())
        return by.sort("school")["age"].to_numpy()

    whole, parts = (apart(blocks_of(maker, size, monkeypatch)) for size in (N, 1_000))
    assert np.ptp(whole) > 1.5
    assert parts == pytest.approx(whole, abs=0.3)


def test_a_row_of_cells_has_the_law_of_its_records() -> None:
    """Rows with weights against the same rows, each as often as its weight says."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 4, (60, 3)).astype(np.int32)
    counts = rng.integers(1, 6, 60)
    tables, runs = [(0, 1), (0, 2), (1, 2)], {0: 3}
    law = score_laws(rows, counts.astype(float), tables, runs)[0]
    records_of = np.repeat(rows, counts, axis=0)
    brute = score_laws(records_of, np.ones(len(records_of)), tables, runs)[0]
    of_row = np.repeat(np.arange(60), counts)
    for name in ("below", "above", "first", "width", "mean", "deviation"):
        by_row = getattr(law, name)[law.position][of_row]
        by_record = getattr(brute, name)[brute.position]
        assert by_row == pytest.approx(by_record)


def test_smoothed_weights_of_rows_are_those_of_their_records() -> None:
    rng = np.random.default_rng(2)
    places = [rng.integers(0, 3, 40), rng.integers(0, 4, 40)]
    of_record = np.repeat(np.arange(40), rng.integers(1, 7, 40))
    drawn = rng.uniform(1, 9, of_record.size)
    by_row = smoothed(np.bincount(of_record, drawn), np.bincount(of_record) * 1.0, places)
    once = np.ones(of_record.size)
    by_record = smoothed(drawn, once, [cell[of_record] for cell in places])
    assert by_row[of_record] == pytest.approx(by_record)


def test_weights_do_not_depend_on_blocks(
    maker: Synthesizer, result: us.Synthesis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of records that a rule moved into another cell."""
    parts = blocks_of(maker, 1_000, monkeypatch)
    assert sum(part.effects.changed for part in parts) > 5
    pool = maker.fit.pool.codes
    published = published_codebook(result.ground.codebook, maker.noisy, DESIGN)

    def weights(blocks: list[Block]) -> list[np.ndarray]:
        made = FileWeights(maker.noisy, maker.cells, pool, published, DESIGN)
        for block in blocks:
            made.add(block)
        return made.both()

    together = Block(
        pl.concat([part.frame for part in parts]),
        np.concatenate([part.rows for part in parts]),
        RuleEffects.together([part.effects for part in parts]),
    )
    by_blocks, at_once = weights(parts), weights([together])
    for ours, theirs in zip(by_blocks, at_once, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12)
    assert together.effects.records == N
    values = [together.frame[column.name] for column in maker.cells]
    codes = np.column_stack(
        [m[c.codes(v)] for m, c, v in zip(maker.noisy.coarse, maker.cells, values, strict=True)]
    )  # of every record by its values, without a pool
    smooth = smoothed(by_blocks[0], np.ones(N), table_places(codes, maker.noisy, 3))
    share = maker.noisy.records / N  # weights are those of a file of its size
    low, high = published["w"].bounds or (np.nan, np.nan)
    totals = public_sums(together.frame, published)
    by_record = calibrated(smooth, totals, (share * low, share * high))
    assert by_blocks[1] == pytest.approx(by_record, rel=1e-9)
    frame = together.frame.with_columns(pl.Series("s", by_blocks[1]))
    sums = dict(frame.group_by("home").agg(pl.col("s").sum()).iter_rows())
    assert sums == pytest.approx({1: 40_000, 2: 60_000})


def test_effects_of_blocks_add_up() -> None:
    first = RuleEffects({"r": 2}, 2, {("a",): np.array([2, -2])}, 50)
    second = RuleEffects({"r": 1}, 1, {("a",): np.array([-1, 1])}, 50)
    both = RuleEffects.together([first, second])
    assert (both.broken, both.changed) == ({"r": 3}, 3)
    assert both.moved == {("a",): pytest.approx(0.01)}  # |2 - 1| + |-2 + 1| over twice 100


def test_large_files_lie_on_disk_with_their_codebook(
    result: us.Synthesis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(records, "BLOCK", 1_500)
    noisy, ground = result.output.noisy, result.ground  # type: ignore[attr-defined]
    heard: list[tuple[int, int]] = []
    files = synthetic_files(
        noisy, ground.codebook, DESIGN, result.chance, made=lambda *records: heard.append(records)
    )
    assert heard == [(1_500 * k, 12_000) for k in range(1, 9)]
    assert not [*scratch().glob("*.arrow")]  # nothing waits any more
    for file in files:
        assert file.stored is not None
        assert file.n == N
        frame = file.raw.to_polars()
        assert frame.columns == ["school", "home", "pay", "w", "w_smoothed"]
        us.write_survey(file, tmp_path / "file.parquet")
        assert (tmp_path / "file.parquet").read_bytes() == file.stored.read_bytes()
        again = us.read_survey(tmp_path / "file.parquet", file.design)
        assert again.codebook == file.codebook
        assert again.raw.to_polars().equals(frame)
    repeated = synthetic_files(noisy, ground.codebook, DESIGN, result.chance)
    for file, same in zip(files, repeated, strict=True):  # as a killed release makes them again
        assert file.stored is not None
        assert same.stored is not None
        assert file.stored.read_bytes() == same.stored.read_bytes()
    total = us.tabulate(files, "total(pay)", combine="partial")["estimate"][0]
    usual = us.tabulate(result.datasets, "total(pay)", combine="partial")["estimate"][0]
    assert total == pytest.approx(usual, rel=0.02)
