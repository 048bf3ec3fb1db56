"""Files that workers make, with parts of this process in the place of workers: the records and the
weights of files that are made here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from people_in_folders import BOOK, people

import understudy as us
from understudy.chance import chance_of
from understudy.errors import Refused
from understudy.mechanisms.whole_file import files_there, records
from understudy.mechanisms.whole_file.calibration import combined
from understudy.mechanisms.whole_file.files import (
    file_maker,
    published_codebook,
    synthetic_files,
)
from understudy.mechanisms.whole_file.weights import published_design

COLUMNS = ("sex", "age", "income", "h", "w")
MET = {"sex": {"f": 16_000.0, "m": 11_500.0}, "h": {1: 11e3, 2: 9e3, 3: 10.5e3}}
BEYOND = {"sex": {"f": 16_000.0, "m": 14_000.0}, "h": {1: 9e3, 2: 9e3, 3: 12e3}}
CODEBOOK = replace(BOOK.only(list(COLUMNS)), impossible=("age > 0 and age < w",))
DESIGN = us.Design("w", "h")
CHANCE = chance_of(b"sixteen bytes or more")


@pytest.fixture(scope="module")
def result() -> us.Synthesis:
    """The engine without noise."""
    survey = us.Survey(people().select(COLUMNS), DESIGN, CODEBOOK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.mechanisms.whole_file.fit.POOL", 20_000)
        return us.synthesize(survey, us.WholeFile(), us.Unweighted(), datasets=1, seed=5)


class Parts:
    """What Spark's frame would be: the parts that workers made, in any order."""

    def __init__(self, parts: list[pl.DataFrame]) -> None:
        self.parts = parts

    def each(self, work: Callable[[pl.DataFrame], pl.DataFrame], schema: pl.Schema) -> Parts:
        return Parts([work(part).select(schema.names()).cast(dict(schema)) for part in self.parts])

    def count(self) -> int:
        return len(self.parts)

    unpersist = count


def grouped(there: Any, by: tuple[str, ...], weights: Any) -> Any:
    numbers = files_there._Numbers(by, weights)
    return pl.concat([numbers(part) for part in reversed(there.frame.parts)]).group_by(by)


def summed(there: Any, by: tuple[str, ...], weights: Any) -> pl.DataFrame:
    return grouped(there, by, weights).agg(records=pl.len(), sum=pl.sum(files_there.NOW))


def held(there: Any, weights: Any) -> pl.DataFrame:
    now = pl.col(files_there.NOW)
    by_level = grouped(there, (files_there.LEVELS,), weights)
    return by_level.agg(held=pl.sum(files_there.HELD), low=now.min(), high=now.max())


@pytest.fixture
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def part_by_part(_: Any, parts: int, work: Any, schema: pl.Schema) -> Parts:
        made = [work(number) for number in reversed(range(parts))][::-1]
        return Parts(made).each(lambda frame: frame, schema)

    def distinct(there: Any) -> Any:
        levels = pl.concat([part[files_there.LEVELS] for part in there.frame.parts])
        return np.sort(levels.unique().to_numpy())

    monkeypatch.setattr(records, "BLOCK", 300)
    monkeypatch.setattr(files_there, "part_by_part", part_by_part)
    monkeypatch.setattr(files_there, "frame_by_frame", Parts.each)
    monkeypatch.setattr(files_there, "kept_there", lambda parts: parts)
    monkeypatch.setattr(files_there._Records, "_summed", summed)
    monkeypatch.setattr(files_there._Records, "_held", held)
    monkeypatch.setattr(files_there._Records, "_levels", distinct)


@pytest.mark.usefixtures("workers_here")
@pytest.mark.parametrize("totals", [MET, BEYOND, {}])
def test_records_and_weights_are_those_of_a_file_that_is_made_here(
    totals: dict[str, dict[Any, float]], result: us.Synthesis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With totals that weights meet within their bounds, and with others; some records are moved by
    a rule. Blocks were made in another order."""
    noisy: Any = result.output.noisy  # type: ignore[attr-defined]
    codebook = replace(result.ground.codebook, population_by=totals)
    (here,) = synthetic_files(noisy, codebook, DESIGN, CHANCE)
    maker = file_maker(noisy, codebook, DESIGN, CHANCE)
    blocks = maker.file(0, CHANCE.generator("file 0"))
    assert blocks.parts == 7
    published = published_codebook(codebook, noisy, DESIGN)
    shown: Any = published_design(DESIGN)
    kept: list[pl.DataFrame] = []
    monkeypatch.setattr(files_there, "kept_there", lambda parts: kept.extend(parts.parts) or parts)
    made = files_there._with_weights(blocks, noisy, published, shown, None)
    ours, expected = pl.concat(made.parts), here.raw.to_polars()
    weights = ["w", "w_smoothed"]
    assert sum(part[files_there.ROW].lt(0).sum() for part in kept[:7]) > 5
    assert ours.columns == expected.columns
    assert ours.drop(weights).equals(expected.drop(weights))
    for name in weights:
        np.testing.assert_allclose(ours[name], expected[name], rtol=1e-12)
    assert ours["w"].is_between(1, 30).all() == (totals is not BEYOND)


@pytest.mark.usefixtures("workers_here")
def test_too_many_combinations_of_totals_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files_there, "MOST_COMBINATIONS", 11)  # 3 by 4 with those without a level
    there = files_there._Records(None, [(np.empty(0, int), np.ones(k)) for k in (2, 3)])
    with pytest.raises(Refused, match="too many combinations"):
        _ = there.occurring


def test_combinations_are_counted_through() -> None:
    """Whether there are few or many for the number of records."""
    rng = np.random.default_rng(1)
    for levels in (3, 50_000):
        places = [rng.integers(-1, levels, 40) for _ in range(3)]
        number, steps = combined([(each, np.ones(levels)) for each in places])
        assert sorted(set(number.tolist())) == list(range(len(set(zip(*places, strict=True)))))
        for each, (cells, _) in zip(places, steps, strict=True):
            assert cells[number].tolist() == each.tolist()
