"""Threats to an answer, each with the test that fails without its defence."""

from __future__ import annotations

import ast
import json
import logging
import math
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verification_samples import (
    FINGERPRINT,
    OpenLedger,
    changed_partitions,
    make_frame,
    make_query,
    make_survey,
    partition_numbers,
)

import chance
import understudy.verify
from understudy.errors import Refused
from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger, OverBudget
from understudy.verify import answer as answer_module
from understudy.verify.answer import AnswerFailed, answer_query
from understudy.verify.catalogue import packaged
from understudy.verify.confidential import ConfidentialData
from understudy.verify.partitions import new_key
from understudy.verify.receipt import Receipt

EVERY: list[dict[str, Any]] = [
    {"estimator": "mean", "domain": {"region": ["East"]}},
    {"estimator": "total", "estimate": 1e6, "se": 1e4},
    {"estimator": "proportion", "variable": "sex", "level": 2, "estimate": 0.5, "se": 0.02},
    {"estimator": "ratio", "denominator": "hours", "estimate": 3.5, "se": 0.1},
    {"estimator": "difference", "domain": {"sex": [2]}, "versus": {"sex": [1]}},
    {"estimator": "quantile", "probability": 0.5},
    {
        "estimator": "linear",
        "predictors": ["hours", "region"],
        "coefficient": "hours",
        "estimate": 2.0,
        "se": 0.1,
    },
    {
        "estimator": "logistic",
        "variable": "sex",
        "level": 2,
        "predictors": ["hours"],
        "coefficient": "hours",
        "estimate": 0.1,
        "se": 0.1,
    },
]
MEASURES = [
    {"measure": "discrepancy"},
    {"measure": "agreement"},
    {"measure": "agreement", "noise": "laplace"},
]


@pytest.fixture
def rich(tmp_path: Path, data: ConfidentialData) -> Any:
    with Ledger(tmp_path / "rich.db") as opened:
        for name in ("ann", "bob"):
            add_user(opened, name)
            opened.grant(name, "500")
        opened.add_dataset(data.fingerprint, "survey", "1000")
        yield opened


@pytest.mark.any_noise
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("changes", EVERY)
def test_every_estimator_with_every_measure_is_answered_and_paid(
    rich: Ledger, data: ConfidentialData, changes: dict[str, Any], measure: dict[str, Any]
) -> None:
    query = make_query(**(changes | measure))
    receipt = answer_query(query, data, rich, "ann")
    assert rich.budget("user", "ann").spent == query.micro
    low, high = receipt.belief.interval(0.9)
    assert low <= receipt.belief.median <= high
    assert receipt.promise.relation == "add-remove"
    assert receipt.promise.epsilon == 1.0
    again = answer_query(query, data, rich, "ann")
    assert again.replayed
    document = receipt.model_dump(mode="json")
    assert again.model_dump(mode="json") == document | {"replayed": True}
    assert json.loads(receipt.model_dump_json()) == document
    assert document["receipt"] == receipt.number
    stored = Receipt.from_ledger(rich.answers("ann")[0], packaged())
    assert stored == receipt
    assert receipt.sentence


CLIP = 6.0
STEP = CLIP * math.sqrt(10) / 10_000  # of the sum of 10 partitions, in units of the answer


@pytest.mark.usefixtures("stand_in_keys")
@pytest.mark.chance(
    chance.noise_beyond(0.3 / STEP, 2000 / 300, counts=3) + chance.any_noise_at_all(2, 1 / 60),
    "noise of 0.3 in one of three answers, or any in one of two",
)
def test_a_true_answer_comes_out_at_a_large_epsilon(rich: Ledger, data: ConfidentialData) -> None:
    """With almost no noise the answer is the clipped mean discrepancy itself."""
    rich.grant("ann", "1000")
    rich.raise_cap(data.fingerprint, "500")
    frame = data.records.to_polars()
    w, y = frame["__weight"].to_numpy(), frame["income"].to_numpy()
    mean = float(np.sum(w * y) / np.sum(w))
    for offset in (-2.0, 0.0, 3.0):
        query = make_query(epsilon="300", estimate=mean - offset, se=1.0, clip=CLIP)
        receipt = answer_query(query, data, rich, "ann")
        assert receipt.belief.median == pytest.approx(offset, abs=0.5)
    sure = make_query(measure="agreement", epsilon="60", estimate=mean, se=2.0)
    assert answer_query(sure, data, rich, "ann").noisy >= 9
    never = make_query(measure="agreement", epsilon="60", estimate=mean + 100, se=2.0)
    assert answer_query(never, data, rich, "ann").noisy == 0


# 2. Crash gives a free answer ----------------------------------------------------------


@pytest.mark.any_noise
def test_kill_9_at_every_step_leaves_an_entry_for_every_answer(
    ledger: Ledger, open_ledger: OpenLedger, ledger_place: tuple[str, str]
) -> None:
    ledger.raise_cap(FINGERPRINT, "50")
    ledger.grant("ann", "50")
    ledger.close()
    program = str(Path(__file__).parent / "kill_steps.py")
    run = subprocess.run(
        [sys.executable, program, *ledger_place], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(reports) >= 30, "fewer steps than expected; is the instrumentation asleep?"
    assert all(r["status"] == 9 for r in reports[:-1]), "a child neither died nor was the last"
    assert reports[-1]["status"] == 0
    reopened = open_ledger()  # checks chain, budgets and head
    entries = list(reopened.entries())
    released = {e.refers: e.content()["noisy"] for e in entries if e.kind == "release"}
    paid = [e.number for e in entries if e.kind == "reserve"]
    reported = [r["told"] for r in reports if r["told"] is not None]
    assert len(reported) >= 2
    for seen in reported:
        assert released[paid[seen["number"] - 1]] == seen["noisy"]
    spent = sum(e.micro for e in entries if e.kind == "reserve")
    assert reopened.budget("user", "ann").spent == spent
    # Whoever was killed after the reservation has paid, answer or not.
    after = sum(1 for e in entries if e.kind == "reserve")
    assert len(released) < after <= len(reports)


# 8. Error channel, 11. Parameters from the data ------------------------------------------


def neighbours() -> list[pl.DataFrame]:
    """Files that differ in what could make a careless server fail."""
    frame = make_frame(120)
    alone = frame.with_columns(
        region=pl.when(pl.col("person") == 1000).then(pl.lit("East")).otherwise(pl.lit("North")),
        hours=pl.lit(40),
    )
    return [
        frame,
        alone,  # one unit in a level, a constant predictor: singular everywhere
        alone.filter(pl.col("person") != 1000),  # and without it
        frame.head(1),
        frame.with_columns(income=pl.lit(None, pl.Float64)),
        frame.with_columns(income=pl.col("income") * 1e300),
        frame.with_columns(income=pl.lit(float("inf"))),
        frame.with_columns(w=pl.col("w") * 1e200),
        frame.with_columns(w=pl.col("w") * 1e-200),
        frame.with_columns(hours=pl.lit(0)),
    ]


@pytest.mark.any_noise
def test_no_content_of_the_file_changes_what_is_accepted_or_the_shape_of_the_reply(
    ledger_place: tuple[str, str],
) -> None:
    shapes = set()
    with Ledger(*ledger_place) as ledger:
        add_user(ledger, "ann")
        ledger.grant("ann", "900")
        for number, frame in enumerate(neighbours()):
            with ConfidentialData("survey", make_survey(frame)) as data:
                ledger.add_dataset(data.fingerprint, f"neighbour {number}", "100")
                before = ledger.budget("user", "ann").spent
                for turn, changes in enumerate(EVERY):
                    measure = MEASURES[(number + turn) % 2]
                    query = make_query(**(changes | measure))
                    reply = answer_query(query, data, ledger, "ann").model_dump(mode="json")
                    shapes.add((query.estimator, query.measure, _shape(reply)))
                # 14: the price is the request's, whatever the file holds.
                assert ledger.budget("user", "ann").spent - before == 8_000_000
    assert len(shapes) == 2 * len(EVERY)


def _shape(reply: Any) -> str:
    if isinstance(reply, dict):
        return json.dumps({k: _shape(v) for k, v in sorted(reply.items())})
    return type(reply).__name__


@pytest.mark.any_noise
def test_a_failure_after_the_reservation_is_charged_and_says_nothing(
    rich: Ledger, data: ConfidentialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        secret_record = 987654.321
        raise ValueError(f"income {secret_record} is out of range")

    monkeypatch.setattr(answer_module, "partition_estimates", broken)
    with pytest.raises(AnswerFailed) as failed:
        answer_query(make_query(), data, rich, "ann")
    text = "".join(traceback.format_exception(failed.value))
    assert "987654" not in text
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    assert rich.budget("user", "ann").spent == 1_000_000
    kinds = [e.kind for e in rich.entries()]
    assert kinds[-2:] == ["reserve", "fail"]
    assert "987654" not in "".join(e.body for e in rich.entries())


def test_refusals_before_the_reservation_cost_nothing(
    rich: Ledger, data: ConfidentialData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untouched(*_: Any) -> Any:
        raise AssertionError("the data were touched")

    monkeypatch.setattr(answer_module, "assign_partitions", untouched)
    before = list(rich.entries())
    for bad in (
        make_query(variable="incme"),
        make_query(dataset="other"),
        make_query(tolerance={"value": 1e5}),
        make_query(estimate=None, se=None),
    ):
        with pytest.raises(Refused):
            answer_query(bad, data, rich, "ann")
    with pytest.raises(OverBudget):
        answer_query(make_query(epsilon="600"), data, rich, "ann")
    assert list(rich.entries()) == before


# 9. Partition sensitivity, 10. Weights ------------------------------------------------------

UNIT = st.fixed_dictionaries(
    {
        "income": st.none() | st.floats(allow_nan=True, allow_infinity=True),
        "hours": st.integers(-(2**31), 2**31),
        "region": st.sampled_from(["North", "South", "East"]),
        "sex": st.sampled_from([1, 2]),
        "w": st.floats(1e-6, 1e6),
    }
)
SMALL = make_frame(80, seed=5)


@pytest.fixture(scope="module")
def small() -> Any:
    with ConfidentialData("survey", make_survey(SMALL)) as opened:
        yield opened


@pytest.mark.any_noise
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    UNIT,
    st.integers(0, 79),
    st.sampled_from(["add", "remove", "change"]),
    st.sampled_from(EVERY[:5]),
)
def test_one_unit_changes_at_most_one_partition(
    small: ConfidentialData, unit: dict[str, Any], position: int, how: str, changes: dict[str, Any]
) -> None:
    person = int(SMALL["person"][position])
    rest = SMALL if how == "add" else SMALL.filter(pl.col("person") != person)
    new = pl.DataFrame([unit | {"person": 5 if how == "add" else person}], schema=SMALL.schema)
    other = rest if how == "remove" else pl.concat([rest, new.select(SMALL.columns)])
    assert changed_partitions(small, other, make_query(**changes)) <= 1


@pytest.mark.any_noise
def test_one_unit_changes_at_most_one_fitted_partition() -> None:
    frame = make_frame(300, seed=6)
    wild = frame.with_columns(
        income=pl.when(pl.col("person") == 1007).then(1e9).otherwise(pl.col("income")),
        hours=pl.when(pl.col("person") == 1007).then(-(10**6)).otherwise(pl.col("hours")),
    )
    key = new_key()
    estimates = []
    for version in (frame, wild, frame.filter(pl.col("person") != 1007)):
        with ConfidentialData("survey", make_survey(version)) as data:
            queries = [make_query(partitions=5, **changes) for changes in EVERY[5:]]
            estimates.append([partition_numbers(data, query, key) for query in queries])
    for other in estimates[1:]:
        for before, after in zip(estimates[0], other, strict=True):
            assert np.sum(np.any(before != after, axis=0)) <= 1


@pytest.mark.any_noise
def test_the_promise_names_the_weights(rich: Ledger, data: ConfidentialData) -> None:
    text = answer_query(make_query(), data, rich, "ann").claim
    assert "weights calibrated over the whole file break this" in text


# 15, 17, 18 ------------------------------------------------------------------------------------


@pytest.mark.any_noise
def test_the_same_data_under_a_new_name_share_the_cap(
    tmp_path: Path, frame: pl.DataFrame, data: ConfidentialData
) -> None:
    with (
        Ledger(tmp_path / "l.db") as ledger,
        ConfidentialData(
            "renamed", make_survey(frame.sample(fraction=1.0, shuffle=True, seed=1))
        ) as renamed,
    ):
        for name in ("ann", "bob"):
            add_user(ledger, name)
            ledger.grant(name, "5")
        ledger.add_dataset(data.fingerprint, "survey", "1")
        ledger.add_dataset(renamed.fingerprint, "renamed", "1")
        answer_query(make_query(), data, ledger, "ann")
        with pytest.raises(OverBudget, match="less than that is left for this data set"):
            answer_query(make_query(dataset="renamed"), renamed, ledger, "bob")


@pytest.mark.chance(
    chance.digits_met(12, 10**6, strings=4), "a canary of 12 digits among those of keys and answers"
)
def test_no_record_value_reaches_logs_database_or_replies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    canaries = {"income": 987654321987.321, "hours": 313373133731, "person": 424242424242}
    frame = make_frame(200)
    other = pl.DataFrame([canaries | {"region": "East", "sex": 1, "w": 77.12515216713}])
    frame = pl.concat([frame, other.select(frame.columns).cast(dict(frame.schema))])
    replies = []
    caplog.set_level(logging.DEBUG)
    with (
        Ledger(tmp_path / "ledger.db") as ledger,
        ConfidentialData("survey", make_survey(frame)) as data,
    ):
        add_user(ledger, "ann")
        ledger.grant("ann", "500")
        ledger.add_dataset(data.fingerprint, "survey", "500")
        for changes in EVERY:
            for measure in MEASURES:
                query = make_query(**(changes | measure))
                replies.append(answer_query(query, data, ledger, "ann").model_dump_json())
        bodies = [e.content() for e in ledger.entries() if e.kind == "release"]
    assert all(set(body) == {"noisy", "relation", "salt", "synthetic"} for body in bodies)
    kept = b"".join(p.read_bytes() for p in tmp_path.iterdir()).decode("latin-1")
    captured = capfd.readouterr()
    everything = kept + "".join(replies) + caplog.text + captured.out + captured.err
    assert len(everything) <= 10**6
    for canary in ("987654321987", "313373133731", "424242424242", "77.1251521671"):
        assert canary not in everything


@pytest.mark.chance(
    math.comb(6, 3) * (6 * chance.noise(2000).pmf(0)) ** 3,
    "three of six further answers equal to one of at most six before them",
)
def test_identical_questions_of_two_users_get_their_own_noise(
    rich: Ledger, data: ConfidentialData
) -> None:
    numbers = {answer_query(make_query(), data, rich, user).noisy for user in ("ann", "bob")}
    more = {
        answer_query(make_query(estimate=120.0 + k / 1e6), data, rich, "ann").noisy
        for k in range(1, 6)
    }
    assert len(numbers | more) > 4


def test_no_generator_but_opendp_and_the_systems_own() -> None:
    folder = Path(understudy.verify.__file__).parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) > 30
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            for name in names:
                assert not name.startswith(("random", "numpy.random", "np.random", "jax")), file
                assert ".rvs" not in name, file


def test_the_core_loads_without_jax() -> None:
    code = (
        "import sys, understudy.verify.answer, understudy.verify.released, "
        "understudy.verify.planner; print('jax' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert run.stdout.strip() == "False"


@pytest.mark.any_noise
def test_an_answer_is_frozen(rich: Ledger, data: ConfidentialData) -> None:
    receipt: Receipt = answer_query(make_query(), data, rich, "ann")
    with pytest.raises(ValueError, match="frozen"):
        receipt.noisy = 0  # type: ignore[misc]
