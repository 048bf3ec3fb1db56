"""What the web calls: the configured data sets and the ledger, and nothing of HTTP.

Everything that an analyst can ask goes through here with the analyst's name, so the owner
of a result is never taken from a request's body.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from understudy.errors import Refused, UnknownName
from understudy.influence import InfluencePlan, UnitRelation
from understudy.ledger.abandoned import fail_abandoned, unanswered
from understudy.ledger.epsilon import show_epsilon
from understudy.ledger.grants import OwnAccount
from understudy.ledger.ledger import Ledger, StillAnswering
from understudy.survey.engine_setting import Engine
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.tables.units import Unit
from understudy.verify.answer import (
    CheckedQuery,
    answer_question,
    check_question,
    public_units,
)
from understudy.verify.caller import Caller
from understudy.verify.catalogue import Catalogue, own_catalogue, packaged
from understudy.verify.confidential import ConfidentialData
from understudy.verify.config import DatasetConfig, ServerConfig, declaration
from understudy.verify.estimator import Estimator
from understudy.verify.planner import Plan, plan_of
from understudy.verify.query import Query
from understudy.verify.question_fields import Condition
from understudy.verify.receipt import Receipt
from understudy.verify.released import ReleasedEstimates, ReleasedFiles, Synthetic
from understudy.verify.shared_state import SharedState
from understudy.verify.turns import Turns

RESTART_SECONDS = 1.0  # for the process that follows one whose deadline passed
HOLD = 0.8  # of the slot: an answer can be read again as soon as its reply is out
SETTLE = 10.0  # seconds between two looks whether those who were in line have gone
REMEMBERED = 1000  # synthetic estimates, which are public


class NotFound(Refused):
    """Nothing under this name or number that the caller may see."""


@dataclass(frozen=True)
class DatasetSource:
    """A data set's configuration, and its files as they were."""

    config: DatasetConfig
    engine: Engine
    stamps: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, config: DatasetConfig, engine: Engine) -> DatasetSource:
        files = [config.path, *filter(None, [config.codebook]), *config.released]
        if config.path.is_dir():
            files += sorted(config.path.rglob("*.parquet"))
        known = [os.stat(file) for file in files if file.exists()]
        stamps = tuple((file.st_mtime_ns, file.st_size) for file in known)
        return cls(config, engine, stamps)


@dataclass(frozen=True)
class Served:
    """A data set as it is served: confidential records, public estimates."""

    data: ConfidentialData
    released: ReleasedEstimates | None = None
    title: str = ""
    source: DatasetSource | None = None  # what it was opened from


@dataclass(frozen=True)
class Quote:
    """The price of a question and what is left to pay it from; all of it public or one's own:
    what is left of the data set's cap would tell what others ask (threat 28)."""

    epsilon: str
    left: str
    affordable: bool
    free: bool  # the same question was answered before
    seconds: float  # until the reply comes
    synthetic: Synthetic
    tolerance: float


class Service:
    """Answers questions for named users, at their price."""

    def __init__(
        self,
        ledger: Ledger,
        datasets: Mapping[str, Served],
        slot_seconds: float = 1.0,
        catalogue: Catalogue | None = None,
        longest_seconds: float = 60.0,
        limit: int | None = None,
    ) -> None:
        self.ledger = ledger
        self.shared = SharedState(ledger)
        self.turns = Turns(self.shared)
        self.limit = limit  # of what one steward can grant
        self.datasets = dict(datasets)
        self.slot_seconds = slot_seconds
        self.longest_seconds = longest_seconds
        self.catalogue = catalogue or packaged()
        self._closing = threading.Event()
        self._reloading = threading.Lock()

    def dataset(self, name: str) -> Served:
        if name not in self.datasets:
            raise UnknownName("data set", name, self.datasets)
        return self.datasets[name]

    def account(self, user: str, dataset: str) -> OwnAccount:
        return self.ledger.account(user, self.dataset(dataset).data.fingerprint)

    def granted(self, user: str) -> dict[str, Served]:
        """The data sets that the user was granted; the others do not exist for her."""
        files = {name: served.data.fingerprint for name, served in self.datasets.items()}
        accounts = self.ledger.accounts(user, files.values())
        return {n: self.datasets[n] for n, file in files.items() if accounts[file].granted}

    def fitted(self, query: Query) -> bool:
        """Whether workers fit the estimate in every partition."""
        return query.measured_by.divides and query.estimand.fitted

    def seconds(self, query: Query) -> float:
        """The reply slot: a function of the request alone (threat 7).

        A fitted estimator may use every partition's deadline, and a new process after each.
        """
        if not self.fitted(query) or query.dataset not in self.datasets:
            return self.slot_seconds
        pool = self.datasets[query.dataset].data.pool
        rounds = -(-query.count // pool.count)
        return self.slot_seconds + rounds * (pool.deadline + RESTART_SECONDS)

    def reload(self, config: ServerConfig, say: Callable[[str], None] = lambda _: None) -> None:
        """Serve what the configuration names now: open what is new or changed, retire the rest. All
        of it, or a refusal that changes nothing. Questions under way end with what they began."""
        with self._reloading:  # one at a time: each holds the old and the new records
            kept, opened = self.datasets, {}
            try:
                for name, dataset in config.datasets.items():
                    known = kept.get(name)
                    if known is None or known.source != DatasetSource.of(dataset, config.engine):
                        opened[name] = _admitted(self.ledger, name, dataset, config.engine, say)
            except BaseException:
                _close(opened.values())
                raise
            self.datasets = {name: opened.get(name) or kept[name] for name in config.datasets}

    def check(self, query: Query, user: str | None = None) -> CheckedQuery:
        """All checks that need no record; the synthetic estimate."""
        if user is not None and query.dataset not in (own := self.granted(user)):
            raise UnknownName("data set", query.dataset, own)
        served = self.dataset(query.dataset)
        if self.fitted(query) and self.seconds(query) > self.longest_seconds:
            raise Refused(
                f"This question may take {self.seconds(query):.0f} seconds, and this server allows "
                f"{self.longest_seconds:g}; ask for fewer partitions."
            )
        return replace(check_question(query, served.data, served.released), data=served.data)

    def settled(self, user: str, question: CheckedQuery) -> Receipt | None:
        """What needs no place (threat 21): the answer that was paid for, or a refusal; None for a
        question to be computed."""
        query = question.query
        data = self._data(question)
        stored = self.ledger.look_up(user, data.fingerprint, query, data.cost(query))
        if stored is None:
            return None
        return Receipt.from_ledger(stored, self.catalogue, replayed=True)

    def quote(self, user: str, question: CheckedQuery) -> Quote:
        query = question.query
        data = self._data(question)
        fingerprint = data.fingerprint
        own = self.ledger.account(user, fingerprint).budget.left
        charged = self.ledger.population(fingerprint).amount([data.cost(query)]).micro
        try:
            free = self.ledger.stored(user, fingerprint, query) is not None
        except StillAnswering:
            free = True
        return Quote(
            epsilon=show_epsilon(charged),
            left=show_epsilon(own),
            affordable=free or charged <= own,
            free=free,
            seconds=self.seconds(query),
            synthetic=question.synthetic,
            tolerance=question.terms.tolerance,
        )

    def plan(self, question: CheckedQuery) -> Plan:
        """What an answer could say (V §5), from the request and public files."""
        if question.synthetic.se is None:
            raise Refused("A plan needs the synthetic standard error; give `se`.")
        return plan_of(question.query.measured_by, question.terms)

    def errors(self, question: CheckedQuery) -> list[dict[str, Any]]:
        """Error against epsilon for every number, where the answer is one of influence."""
        served = self.dataset(question.query.dataset)
        if question.plan is None or served.released is None:
            return []
        units = public_units(served.data)
        return served.released.influence_errors(question.query, *units).to_dicts()

    def verify(self, user: str, question: CheckedQuery, caller: Caller | None = None) -> Receipt:
        """Spend and answer; the answer is shown to nobody before its slot is nearly over."""
        return answer_question(
            question,
            self._data(question),
            self.ledger,
            user,
            hold_seconds=HOLD * self.seconds(question.query),
            caller=caller,
        )

    def _data(self, question: CheckedQuery) -> ConfidentialData:
        """What the question was checked against, though the data set be retired meanwhile."""
        return question.data or self.dataset(question.query.dataset).data

    def history(
        self, user: str, before: int | None = None, count: int | None = None
    ) -> list[Receipt]:
        """The user's own answers, newest first: all, or a page of them."""
        stored = reversed(self.ledger.answers(user, before, count))
        return [Receipt.from_ledger(answer, self.catalogue) for answer in stored]

    def receipt(self, user: str, number: int) -> Receipt:
        """One of the user's own answers; another's number does not exist (threat 16)."""
        stored = self.ledger.answer(user, number)
        if stored is None:
            raise NotFound(
                "You have no answer with this number; see your history for those you have."
            )
        return Receipt.from_ledger(stored, self.catalogue)

    def left(self, user: str, dataset: str | None = None) -> str:
        """What the user has left for a data set; without one, for those without a grant of their
        own."""
        if dataset is None:
            return show_epsilon(self.ledger.budget("user", user).left)
        return show_epsilon(self.account(user, dataset).budget.left)

    def left_for(self, dataset: str) -> str:
        fingerprint = self.dataset(dataset).data.fingerprint
        return show_epsilon(self.ledger.budget("dataset", fingerprint).left)

    def settle_abandoned(self) -> threading.Thread | None:
        """Fail what a server that died left unanswered: at once, or, where others are at work, in a
        thread when all who are in line now have gone. Who pays has been in line, so what they
        leave without an answer is nobody's."""
        abandoned = unanswered(self.ledger)
        under_way = self.turns.under_way()  # after they were read: whoever computes one is in line

        def settle() -> None:
            while not self._closing.wait(SETTLE):
                with suppress(Exception):  # a database that is away comes back
                    if not under_way():
                        return fail_abandoned(self.ledger, abandoned)

        if not under_way():
            fail_abandoned(self.ledger, abandoned)
        elif abandoned:
            waiting = threading.Thread(target=settle, daemon=True)
            waiting.start()
            return waiting
        return None

    def close(self) -> None:
        self._closing.set()
        _close(self.datasets.values())
        self.shared.close()
        self.ledger.close()


class Remembered:
    """Synthetic estimates computed once; price, plan and answer share them."""

    def __init__(self, released: ReleasedEstimates) -> None:
        self._released = released
        # Neither the price nor the tolerance is part of what is estimated.
        self._known: OrderedDict[tuple[Estimator, tuple[Condition, ...]], Synthetic] = OrderedDict()
        self._plans: OrderedDict[str, InfluencePlan] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, query: Query) -> Synthetic:
        asked = query.estimand, query.domain
        with self._lock:
            if asked not in self._known:
                # Ibis keeps one DuckDB connection: one estimate at a time.
                self._known[asked] = self._released(query)
                if len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
            return self._known[asked]

    def influence_plan(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> InfluencePlan:
        """The same for plans of answers by influence, which depend on the price as well."""
        asked = query.canonical()
        with self._lock:
            if asked not in self._plans:
                self._plans[asked] = self._released.influence_plan(query, relation, unit, units)
                if len(self._plans) > REMEMBERED:
                    self._plans.popitem(last=False)
            return self._plans[asked]

    def influence_errors(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> pl.DataFrame:
        """Not remembered: a page is looked at once."""
        with self._lock:
            return self._released.influence_errors(query, relation, unit, units)


def open_service(config: ServerConfig, say: Callable[[str], None] = lambda _: None) -> Service:
    """Open everything that a configuration names, or refuse in one sentence."""
    catalogue = own_catalogue(config.estimators, config.measures)
    ledger = Ledger(*config.location)
    opened: dict[str, Served] = {}
    try:
        for name, dataset in config.datasets.items():
            opened[name] = _admitted(ledger, name, dataset, config.engine, say)
    except BaseException:
        _close(opened.values())
        ledger.close()
        raise
    service = Service(
        ledger, opened, config.slot_seconds, catalogue, config.longest_seconds, config.limit
    )
    service.settle_abandoned()
    return service


def _admitted(
    ledger: Ledger, name: str, dataset: DatasetConfig, engine: Engine, say: Callable[[str], None]
) -> Served:
    """A data set whose population the ledger knows."""
    say(f"Opening {name}")
    served = _open(name, dataset, engine)
    unit, book = served.data.unit, served.data.codebook
    if dataset.released and unit and book.records_per_unit is None:
        say(
            f"The codebook of {name} says nothing about `records_per_unit`: answers by influence "
            f"are planned for one record of each `{unit}`, and totals are wrong where one has "
            "several"
        )
    try:
        ledger.admit(served.data.file, declaration(name, dataset), "configuration")
    except BaseException:
        _close([served])
        raise
    return served


def _close(datasets: Iterable[Served]) -> None:
    for served in datasets:
        served.data.close()


def _open(name: str, config: DatasetConfig, engine: Engine) -> Served:
    # before it is read: what changes meanwhile is read again
    source = DatasetSource.of(config, engine)
    survey = read_survey(config.path, config.design, codebook=config.codebook, engine=engine)
    data = ConfidentialData(
        name, survey, workers=config.workers, deadline=config.deadline,
        where=config.where, kept="source" if engine.on_cluster else config.kept,
        nonresponse=config.nonresponse, engine=engine,
    )  # fmt: skip
    released = None
    if config.released:
        book = data.codebook
        files = []
        for path in config.released:
            public = read_survey(path, config.design)
            files.append(Survey(public.raw, config.design, book.only(list(public.columns))))
        released = Remembered(ReleasedFiles(files, book, config.combine))
    return Served(data, released, data.codebook.title, source)
