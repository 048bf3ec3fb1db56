"""What the web calls: the configured data sets and the ledger, and nothing of HTTP.

Everything that an analyst can ask goes through here with the analyst's name, so the owner
of a result is never taken from a request's body.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from understudy.errors import Refused, UnknownName
from understudy.ledger.epsilon import show_epsilon
from understudy.ledger.ledger import Ledger, StillAnswering
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.verify.answer import Answer, Released, Synthetic, answer_query, prepare
from understudy.verify.answer import stored_answer as told
from understudy.verify.confidential import ConfidentialData
from understudy.verify.config import DatasetConfig, ServerConfig
from understudy.verify.planner import Plan, plan
from understudy.verify.query import Query, tolerance_width
from understudy.verify.released import ReleasedFiles

FITTED = ("quantile", "linear", "logistic")
RESTART_SECONDS = 1.0  # for the process that follows one whose deadline passed
HOLD = 0.8  # of the slot: an answer can be read again as soon as its reply is out
REMEMBERED = 1000  # synthetic estimates, which are public


class NotFound(Refused):
    """Nothing under this name or number that the caller may see."""


@dataclass(frozen=True)
class Served:
    """A data set as it is served: confidential records, public estimates."""

    data: ConfidentialData
    released: Released | None = None
    title: str = ""


@dataclass(frozen=True)
class Quote:
    """The price of a question and what is left to pay it from; all of it public or one's own."""

    epsilon: str
    left: str
    left_for_dataset: str
    affordable: bool
    free: bool  # the same question was answered before
    seconds: float  # until the reply comes
    synthetic: Synthetic
    tolerance: float


class Service:
    """Answers questions for named users, at their price."""

    def __init__(
        self, ledger: Ledger, datasets: Mapping[str, Served], slot_seconds: float = 1.0
    ) -> None:
        self.ledger = ledger
        self.datasets = dict(datasets)
        self.slot_seconds = slot_seconds

    def dataset(self, name: str) -> Served:
        if name not in self.datasets:
            raise UnknownName("data set", name, self.datasets)
        return self.datasets[name]

    def seconds(self, query: Query) -> float:
        """The reply slot: a function of the request alone (threat 7).

        A fitted estimator may use every partition's deadline, and a new process after each.
        """
        if query.estimator not in FITTED or query.dataset not in self.datasets:
            return self.slot_seconds
        pool = self.datasets[query.dataset].data.pool
        rounds = -(-query.count // pool.count)
        return self.slot_seconds + rounds * (pool.deadline + RESTART_SECONDS)

    def prepare(self, query: Query) -> Synthetic:
        """All checks that need no record; the synthetic estimate."""
        served = self.dataset(query.dataset)
        return prepare(query, served.data, served.released)

    def quote(self, user: str, query: Query) -> Quote:
        synthetic = self.prepare(query)
        fingerprint = self.dataset(query.dataset).data.fingerprint
        own = self.ledger.budget("user", user).left
        shared = self.ledger.budget("dataset", fingerprint).left
        try:
            free = self.ledger.stored(user, fingerprint, query) is not None
        except StillAnswering:
            free = True
        return Quote(
            epsilon=query.epsilon,
            left=show_epsilon(own),
            left_for_dataset=show_epsilon(shared),
            affordable=free or query.micro <= min(own, shared),
            free=free,
            seconds=self.seconds(query),
            synthetic=synthetic,
            tolerance=tolerance_width(query, synthetic.estimate, synthetic.se),
        )

    def plan(self, query: Query) -> Plan:
        """What an answer could say (V §5), from the request and public files."""
        synthetic = self.prepare(query)
        if synthetic.se is None:
            raise Refused("A plan needs the synthetic standard error; give `se`.")
        return plan(
            synthetic.estimate,
            synthetic.se,
            epsilon=query.epsilon,
            measure=query.measure,
            partitions=query.count,
            tolerance=query.tolerance.value,
            tolerance_kind=query.tolerance.kind,
            interval=query.tolerance.interval,
            noise=query.noise,
            clip=query.clip,
        )

    def verify(self, user: str, query: Query) -> Answer:
        """Spend and answer; the answer is shown to nobody before its slot is nearly over."""
        served = self.dataset(query.dataset)
        return answer_query(
            query,
            served.data,
            self.ledger,
            user,
            released=served.released,
            hold_seconds=HOLD * self.seconds(query),
        )

    def history(self, user: str) -> list[Answer]:
        """The user's own answers, newest first."""
        return [told(stored) for stored in reversed(self.ledger.answers(user))]

    def answer(self, user: str, number: int) -> Answer:
        """One of the user's own answers; another's number does not exist (threat 16)."""
        for stored in self.ledger.answers(user):
            if stored.number == number:
                return told(stored)
        raise NotFound("You have no answer with this number; see your history for those you have.")

    def left(self, user: str) -> str:
        return show_epsilon(self.ledger.budget("user", user).left)

    def left_for(self, dataset: str) -> str:
        fingerprint = self.dataset(dataset).data.fingerprint
        return show_epsilon(self.ledger.budget("dataset", fingerprint).left)

    def close(self) -> None:
        for served in self.datasets.values():
            served.data.close()
        self.ledger.close()


class Remembered:
    """Synthetic estimates computed once per question; price, plan and answer share them."""

    def __init__(self, released: Released) -> None:
        self._released = released
        self._known: OrderedDict[str, Synthetic] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, query: Query) -> Synthetic:
        # Neither the price nor the tolerance is part of what is estimated.
        asked = query.model_copy(
            update={
                "epsilon": "1",
                "measure": "discrepancy",
                "partitions": 2,
                "tolerance": query.tolerance.model_copy(update={"value": 1.0, "kind": "se"}),
            }
        ).digest()
        with self._lock:
            if asked not in self._known:
                # Ibis keeps one DuckDB connection: one estimate at a time.
                self._known[asked] = self._released(query)
                if len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
            return self._known[asked]


def open_service(config: ServerConfig, say: Callable[[str], None] = lambda _: None) -> Service:
    """Open everything that a configuration names, or refuse in one sentence."""
    ledger = Ledger(config.ledger, config.head)
    opened: dict[str, Served] = {}
    try:
        for name, dataset in config.datasets.items():
            say(f"Opening {name}")
            opened[name] = _open(name, dataset)
            ledger.add_dataset(opened[name].data.fingerprint, name, dataset.cap, "configuration")
    except BaseException:
        for served in opened.values():
            served.data.close()
        ledger.close()
        raise
    return Service(ledger, opened, config.slot_seconds)


def _open(name: str, config: DatasetConfig) -> Served:
    survey = read_survey(config.path, config.design, codebook=config.codebook)
    data = ConfidentialData(name, survey, workers=config.workers, deadline=config.deadline)
    released = None
    if config.released:
        book = data.codebook
        files = []
        for path in config.released:
            public = read_survey(path, config.design)
            files.append(Survey(public.raw, config.design, book.only(list(public.columns))))
        released = Remembered(ReleasedFiles(files, book, config.combine))
    return Served(data, released, data.codebook.title)
