"""Audit of the verification server's promise, and seven planted mutants that it must catch.

Lower bounds on epsilon by Clopper-Pearson (alpha = 1e-6) on neighbouring inputs must stay at
or below the claim, and above 0.9 of it for the samplers themselves: else the audit is asleep.
Every check below is a function that the honest code passes and a mutant fails.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

import chance

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from verification_samples import make_frame, make_query, make_survey, partition_numbers

from understudy.ledger.accounts import add_user
from understudy.ledger.chain import BrokenLedger
from understudy.ledger.ledger import Ledger, Reservation
from understudy.verify import answer as answer_module
from understudy.verify import noise
from understudy.verify.answer import AnswerFailed, answer_query
from understudy.verify.confidential import ConfidentialData
from understudy.verify.noise import geometric, laplace
from understudy.verify.partition_fit import Task
from understudy.verify.partitions import PARTITION, UNIT_HEAD, UNIT_NUMBER, UNIT_TAIL, new_key
from understudy.verify.workers import WorkerPool

pytestmark = pytest.mark.usefixtures("stand_in_keys")

ALPHA = 1e-6
DRAWS = 70_000
FEWER = 44_000  # where the event is likelier on both inputs: as seldom a false alarm, or seldomer
ONE = 1_000_000

Sampler = Callable[[list[int]], list[float]]
Event = Callable[[np.ndarray], np.ndarray]


@cache
def drawn(sampler: Sampler, total: int, draws: int) -> np.ndarray:
    """Answers to the same sum; tests look at the same ones for different events."""
    return np.array(sampler([total] * draws))


def epsilon_lower_bound(
    sampler: Sampler, low: int, high: int, event: Event, draws: int = DRAWS
) -> float:
    """A lower confidence bound on log P(event | low) / P(event | high)."""
    hits = [int(event(drawn(sampler, total, draws)).sum()) for total in (low, high)]
    first = beta.ppf(ALPHA / 2, hits[0], draws - hits[0] + 1) if hits[0] else 0.0
    second = beta.ppf(1 - ALPHA / 2, hits[1] + 1, draws - hits[1]) if hits[1] < draws else 1.0
    return math.log(first / second) if first > 0 else -math.inf


# -- the samplers, at the worst neighbours: the sum moves by the whole sensitivity ---------------


SAMPLERS: dict[str, tuple[Sampler, int, int, Event, int]] = {
    "agreement, geometric": (geometric(1, ONE, (0, 5)), 2, 3, lambda y: y <= 2, FEWER),
    "agreement, laplace": (laplace(1, ONE), 0, 1, lambda y: y <= 0, DRAWS),
    "discrepancy": (geometric(2000, ONE), -1000, 1000, lambda y: y <= -1000, DRAWS),
}


# The chance of each event on its likely and its unlikely input.
CHANCES = {
    "agreement, geometric": (1 / (1 + math.exp(-1)), math.exp(-1) / (1 + math.exp(-1))),
    "agreement, laplace": (0.5, 0.5 * math.exp(-1)),
    "discrepancy": (1 / (1 + math.exp(-1 / 2000)), math.exp(-1) / (1 + math.exp(-1 / 2000))),
}


@cache
def missed() -> float:
    return max(
        chance.audit_fails(*CHANCES[name], draws, ALPHA, 0.9, 1.0)
        for name, (*_, draws) in SAMPLERS.items()
    )


@pytest.mark.chance(missed, "the bound outside (0.9, 1], from the event's two binomials")
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sampler_spends_what_it_says_and_not_more(name: str) -> None:
    bound = epsilon_lower_bound(*SAMPLERS[name])
    assert 0.9 < bound <= 1.0


@pytest.mark.usefixtures("stand_in_answers")
@pytest.mark.parametrize("name", ["agreement, geometric", "discrepancy"])
def test_mutant_scale_of_half_epsilon_is_caught(name: str) -> None:
    """Noise for 2 epsilon where epsilon was paid, of the same law from a seed."""
    mutants: dict[str, Sampler] = {
        "agreement, geometric": noise.geometric(1, 2 * ONE, (0, 5)),
        "discrepancy": noise.geometric(2000, 2 * ONE),
    }
    assert epsilon_lower_bound(mutants[name], *SAMPLERS[name][1:]) > 1.0


# -- the low bits of a floating-point sampler ----------------------------------------------------


def low_bit(y: np.ndarray) -> np.ndarray:
    """Answers in [1/4, 1/2) with a bit below 2^-53. A double that came from 1 + noise, noise
    in (-3/4, -1/2], has none: there such an answer says for sure that S was not 1."""
    within = (y >= 0.25) & (y < 0.5)
    return within & (np.floor(np.where(within, y, 0) * 2.0**53) != np.where(within, y, 0) * 2.0**53)


def low_bits_keep_the_promise(sampler: Sampler) -> bool:
    return epsilon_lower_bound(sampler, 0, 1, low_bit) <= 1.0


@pytest.mark.chance(ALPHA, "confidence limits of one sampler")
def test_low_bits_of_our_answers_say_nothing() -> None:
    for name in ("agreement, geometric", "discrepancy"):
        sampler, low, high, _, draws = SAMPLERS[name]
        for total in (low, high):
            answers = drawn(sampler, total, draws)
            assert (answers == np.round(answers)).all()  # whole: no bits below the point
    assert low_bits_keep_the_promise(SAMPLERS["agreement, laplace"][0])


def test_mutant_numpy_noise_is_caught() -> None:
    draw = np.random.default_rng(1)
    assert not low_bits_keep_the_promise(lambda s: list(s + draw.laplace(0.0, 1.0, len(s))))


# -- one unit, one partition ---------------------------------------------------------------------

FRAME = make_frame(90, seed=8)
TOTAL = {"estimator": "total", "estimate": 60_000.0, "se": 3_000.0}


def changed(first: ConfidentialData, two: ConfidentialData, **changes: Any) -> int:
    """The most partitions whose number differs between two files, over several keys."""
    result = []
    for _ in range(5):
        key, query = new_key(), make_query(**changes)
        numbers = [partition_numbers(data, query, key) for data in (first, two)]
        result.append(int(np.sum(np.any(numbers[0] != numbers[1], axis=0))))
    return max(result)


def opened(frame: pl.DataFrame) -> ConfidentialData:
    return ConfidentialData("survey", make_survey(frame))


def test_removing_a_unit_changes_one_partition_and_the_count_by_at_most_one() -> None:
    with opened(FRAME) as whole, opened(FRAME.slice(1)) as without:
        assert changed(whole, without) == 1
        assert changed(whole, without, **TOTAL) == 1


def test_the_worst_neighbours_reach_the_sensitivity() -> None:
    """Without them the bounds above would be about inputs that never occur."""
    calm = FRAME.with_columns(income=pl.lit(120.0))
    one_more = calm.head(1).with_columns(person=pl.lit(1, pl.Int64), income=pl.lit(1e12))
    wild = pl.concat([calm, one_more])
    query = make_query(measure="agreement")
    with opened(calm) as first, opened(wild) as two:
        for _ in range(5):
            key = new_key()
            sums = [partition_numbers(data, query, key).sum(axis=1) for data in (first, two)]
            assert sums[0][0] - sums[1][0] == 1
            assert sums[1][1] - sums[0][1] == 1000  # from the middle to the end


def test_mutant_equal_blocks_under_add_remove_are_caught() -> None:
    def in_blocks(data: ConfidentialData) -> ConfidentialData:
        """Partition by position: head = position // size, so that the hash gives blocks."""
        size = -(-data.units // 10)
        head = (data.records[UNIT_NUMBER] // size).cast("int64")
        data.records = data.records.mutate(**{UNIT_HEAD: head, UNIT_TAIL: head * 0})
        return data

    # Units without ids are known by their row; removing the first moves all block limits.
    with (
        in_blocks(opened(FRAME.drop("person"))) as whole,
        in_blocks(opened(FRAME.drop("person").slice(1))) as without,
    ):
        assert changed(whole, without) > 1


def test_mutant_recalibrated_weights_are_caught() -> None:
    def recalibrated(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(w=pl.col("w") * (1000.0 / pl.col("w").sum()))

    with opened(recalibrated(FRAME)) as whole, opened(recalibrated(FRAME.slice(1))) as without:
        assert changed(whole, without, **TOTAL | {"estimate": 1e5, "se": 3e3}) > 1


# -- deadlines -----------------------------------------------------------------------------------


DEADLINE = 0.02  # CPU seconds; a quantile takes a hundredth of them, the slow task fifteen times


def partition_tasks(slow: bool) -> list[Task]:
    """Six partitions; in the neighbour a record makes the third one slow."""
    tasks = [Task("quantile", np.array([[float(k), k + 1.0], [1.0, 1.0]])) for k in range(6)]
    if slow:
        draw = np.random.default_rng(1)
        columns = draw.normal(size=(602, 2000))
        columns[1] = 1.0
        tasks[2] = Task("linear", columns, levels=(0,) * 600)
    return tasks


def partitions_silenced(run: Callable[[list[Task]], np.ndarray]) -> int:
    before, after = run(partition_tasks(False)), run(partition_tasks(True))
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    return int(np.sum(~same))


def test_a_slow_record_silences_its_own_partition_only() -> None:
    pool = WorkerPool(2, deadline=DEADLINE)
    assert partitions_silenced(pool.run) == 1
    pool.close()


def test_mutant_time_out_of_the_whole_query_is_caught() -> None:
    pool = WorkerPool(2, deadline=DEADLINE)

    def whole_query(tasks: list[Task]) -> np.ndarray:
        estimates = pool.run(tasks)
        return np.full(len(estimates), np.nan) if np.any(np.isnan(estimates)) else estimates

    assert partitions_silenced(whole_query) > 1
    pool.close()


# -- seeds ---------------------------------------------------------------------------------------


def forks_differ(sampler: Sampler) -> bool:
    """Whether four forked processes draw different noise."""
    keys = set()
    for _ in range(4):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            # so many that equal ones by chance are out of the question, away from the bounds
            os.write(write, str(sampler([25] * 60)).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        keys.add(os.read(read, 4096))
        os.close(read)
    return len(keys) == 4


# The child only draws and leaves; another test of this process may have loaded JAX.
FORK = pytest.mark.filterwarnings("ignore:os.fork")


@FORK
@pytest.mark.chance(
    chance.same_noise(60, 2000, pairs=6) + chance.same_noise(60, 1, pairs=6),
    "the same noise in two of four processes",
)
def test_every_process_draws_its_own_noise() -> None:
    assert forks_differ(geometric(2000, ONE))
    assert forks_differ(geometric(1, ONE, (0, 50)))


@FORK
def test_mutant_fixed_seed_is_caught() -> None:
    draw = np.random.default_rng(2024)
    assert not forks_differ(lambda s: list(s + draw.laplace(0.0, 1.0, len(s))))


# -- refunds -------------------------------------------------------------------------------------


def failed_query_stays_spent(path: Path, patch: pytest.MonkeyPatch) -> bool:
    """Let a query break after its reservation; whether the epsilon is still gone."""

    def broken(*_: Any) -> Any:
        raise MemoryError

    patch.setattr(answer_module, "partition_estimates", broken)
    with opened(FRAME) as data, Ledger(path) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "1")
        ledger.add_dataset(data.fingerprint, "survey", "1")
        with pytest.raises(AnswerFailed):
            answer_query(make_query(epsilon="0.4"), data, ledger, "ann")
        spent = ledger.budget("user", "ann").spent
    return spent == 400_000


def test_an_error_after_the_reservation_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failed_query_stays_spent(tmp_path / "ledger.db", monkeypatch)


def test_mutant_refund_on_error_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refund(ledger: Ledger, reservation: Reservation) -> None:
        with ledger.journal.write() as run:
            run("UPDATE budgets SET spent = spent - ?", reservation.micro)

    monkeypatch.setattr(Ledger, "fail", refund)
    assert not failed_query_stays_spent(tmp_path / "ledger.db", monkeypatch)
    with pytest.raises(BrokenLedger, match="do not follow"):  # and the ledger itself notices
        Ledger(tmp_path / "ledger.db")


def test_the_partition_column_is_what_the_mutants_replace() -> None:
    """The mutants above steer the real code path: the keyed hash of head and tail."""
    with opened(FRAME) as data:
        columns = data.records.columns
    assert {UNIT_HEAD, UNIT_TAIL, UNIT_NUMBER} <= set(columns)
    assert PARTITION not in columns
