"""The question an analyst asks: typed, frozen, and checked by the codebook alone.

Nothing here can see a record, so a refusal tells only what is public (threats 8, 11), and
there is no text to evaluate (threat 12). Equal questions have one canonical form, by which
an answer that was paid for is found again (threat 13). Which fields a question can have
follows from the estimators and measures of a catalogue (`understudy.verify.catalogue`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from understudy.dp.accounting import rounded_down
from understudy.dp.additive import AdditiveNoise, GaussianNoise, LaplaceNoise
from understudy.errors import UnknownName
from understudy.ledger.amounts import ATTO, parse_delta, show_delta
from understudy.ledger.epsilon import exact_epsilon, parse_epsilon, show_epsilon
from understudy.survey.codebook import Codebook
from understudy.verify.influence_figures import InfluenceFigures
from understudy.verify.measure import Interval, QuestionTerms
from understudy.verify.mistakes import LISTED, InvalidQuery, QuestionMistake, say
from understudy.verify.question_fields import (
    Condition,
    Domain,
    Group,
    Level,
    Name,
    Strict,
    level_mistakes,
    question_fields,
    required_fields,
)

if TYPE_CHECKING:
    from understudy.verify.catalogue import Catalogue
    from understudy.verify.estimator import Estimator
    from understudy.verify.measure import Measure

FEWEST_PARTITIONS, MOST_PARTITIONS = 2, 1000
MOST_FURTHER = 20  # estimates of a question, beside the first
PARTS = range(FEWEST_PARTITIONS, MOST_PARTITIONS + 1)
DOMAIN = Group(
    "Only these records", "Tick levels to restrict; a column without ticks is not restricted."
)

# Every canonical question has had these since 0.1.0, whatever it asks for.
SINCE_FIRST: Mapping[str, Any] = {
    "level": None,
    "denominator": None,
    "probability": None,
    "predictors": [],
    "coefficient": None,
    "coefficient_level": None,
    "versus": [],
    "clip": 2.0,
}

LATER = ("by", "delta", "also")  # left out where a question does not use them


class Tolerance(Strict):
    """How near is near enough (V §3.3).

    `value` counts synthetic standard errors ("se") or percent of the synthetic estimate.
    `interval` concerns agreement: "adjusted" widens by sqrt(M), "fixed" does not.
    """

    kind: Literal["se", "percent"] = "se"
    value: Annotated[float, Field(gt=0, le=1e6)]
    interval: Interval = "adjusted"

    def width(self, estimate: float, se: float | None) -> float:
        """Half the width of T(tau_0, alpha), the interval for the whole file (V §3.1)."""
        if self.kind == "percent":
            return self.value / 100 * abs(estimate)
        return self.value * (se or 0.0)


class Query(Strict):
    """One question. `estimate` and `se` are the synthetic ones, or None: the server
    computes both from the released files. `by` asks for every cell of a table at once, `also` for
    further estimates at the same price, each with its `estimator`, what that needs, and its
    `domain`; `delta` makes the noise Gaussian under zCDP, which is less for several numbers that
    one unit moves."""

    catalogue: ClassVar[Catalogue]

    dataset: Name
    estimator: str
    variable: Name
    domain: Domain = ()
    measure: str
    tolerance: Tolerance
    partitions: Annotated[int, Field(ge=FEWEST_PARTITIONS, le=MOST_PARTITIONS)] | None = None
    epsilon: str
    estimate: float | None = None
    se: Annotated[float, Field(gt=0)] | None = None
    noise: str
    partitioning: Literal["hash", "equal-size"] = "hash"
    by: Annotated[tuple[Name, ...], Field(strict=False, max_length=4)] | None = None
    delta: str | None = None
    also: (
        Annotated[tuple[dict[str, Any], ...], Field(strict=False, max_length=MOST_FURTHER)] | None
    ) = None

    @model_validator(mode="before")
    @classmethod
    def _usual_measure(cls, document: Any) -> Any:
        """Influence where the server computes the estimate and the estimator has an equation."""
        if not isinstance(document, Mapping):
            return document
        asked = cls.catalogue.estimators.get(str(document.get("estimator")))
        usual = cls.catalogue.usual_measure(asked, document.get("estimate") is None)
        whole = {"measure": usual, **document}
        measure = cls.catalogue.measures.get(str(whole["measure"]))
        if measure is not None and not measure.divides and whole.get("partitions") in PARTS:
            whole["partitions"] = None  # one question, however many parts it mentions
        return whole

    @field_validator("domain", "versus", mode="before", check_fields=False)
    @classmethod
    def _mapping_or_list(cls, value: Any) -> Any:
        """{"region": ["North"]} says the same as [{"column": "region", "levels": [...]}]."""
        if not isinstance(value, Mapping):
            return value
        return [
            {"column": c, "levels": v if isinstance(v, (list, tuple)) else [v]}
            for c, v in value.items()
        ]

    @field_validator("epsilon")
    @classmethod
    def _exact(cls, text: str) -> str:
        return show_epsilon(parse_epsilon(text))

    @field_validator("delta")
    @classmethod
    def _exact_delta(cls, text: str | None) -> str | None:
        return None if text is None else show_delta(parse_delta(text))

    @property
    def micro(self) -> int:
        """The price in millionths; it depends on the request only (threat 14)."""
        return parse_epsilon(self.epsilon)

    @property
    def estimand(self) -> Estimator:
        """What is estimated, with its settings."""
        kind = self.catalogue.estimators[self.estimator]
        return kind(**{name: getattr(self, name) for name in question_fields(kind)})

    @property
    def measured_by(self) -> Measure:
        """What the answer measures, with its settings."""
        kind = self.catalogue.measures[self.measure]
        return kind(**{name: getattr(self, name) for name in question_fields(kind)})

    @property
    def count(self) -> int:
        """The number of partitions M."""
        return self.partitions or self.measured_by.partitions

    @property
    def several(self) -> bool:
        """Whether more than one number is asked for."""
        return bool(self.by or self.also) or self.estimand.several

    @property
    def parts(self) -> tuple[Query, ...]:
        """A question for each of the estimates; this one without the others, first."""
        if not self.also:
            return (self,)
        shared = ("dataset", "measure", "tolerance", "epsilon", "noise", "delta")
        common = {name: value for name, value in self.model_dump().items() if name in shared}
        fields = [question_fields(kind) for kind in self.catalogue.estimators.values()]
        own = ["estimator", "domain", *dict.fromkeys(chain(*fields))]
        made = [self.model_copy(update={"also": None})]
        for number, further in enumerate(self.also):
            unknown = (name for name in further if name not in own)
            mistakes = [say(n, str(UnknownName("field", n, own))) for n in islice(unknown, LISTED)]
            try:
                if mistakes:
                    raise InvalidQuery(mistakes)
                made.append(self.catalogue.read({**common, **further}))
            except InvalidQuery as refusal:
                raise InvalidQuery(_inside_also(number, refusal.mistakes)) from None
        return tuple(made)

    def price_noise(self) -> AdditiveNoise:
        """The noise of an answer by influence, at this price; never below what was paid for."""
        epsilon = rounded_down(exact_epsilon(self.micro))
        if self.delta is None:
            return LaplaceNoise(epsilon)
        return GaussianNoise(epsilon, rounded_down(Fraction(parse_delta(self.delta), ATTO)))

    def terms(
        self, estimate: float, se: float | None, influence: InfluenceFigures | None = None
    ) -> QuestionTerms:
        """The question in numbers, about a synthetic estimate."""
        return QuestionTerms(
            estimate=estimate,
            se=se,
            tolerance=self.tolerance.width(estimate, se),
            partitions=self.count,
            epsilon=float(exact_epsilon(self.micro)),
            interval=self.tolerance.interval,
            noise=self.noise,
            influence=influence,
        )

    def in_words(self) -> str:
        """One line for lists: "Mean of salary where gender is Female"."""
        words = self.estimand.in_words(domain_in_words(self.domain))
        words = f"{words}, by {' and '.join(self.by)}" if self.by else words
        return "; ".join([words, *(part.in_words() for part in self.parts[1:])])

    def canonical(self) -> str:
        """One JSON text for all spellings of the same question."""
        whole = self.model_dump(mode="json")
        owners = (type(self.estimand), type(self.measured_by))
        own = [name for owner in owners for name in question_fields(owner)]
        names = [*Query.model_fields, *own]
        names = [name for name in names if name not in LATER or whole[name]]
        whole["also"] = [part.own_document() for part in self.parts[1:]]
        document = {**SINCE_FIRST, **{name: whole[name] for name in names}}
        document["partitions"] = self.count if self.measured_by.divides else None
        document["predictors"] = sorted(document["predictors"])
        for name, value in document.items():
            if name != "also" and isinstance(value, list) and value and isinstance(value[0], dict):
                document[name] = _ordered(value)
        if not self.measured_by.uses_interval:
            document["tolerance"]["interval"] = "adjusted"
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def own_document(self) -> dict[str, Any]:
        """What one of several estimates says of itself, in one form for all spellings."""
        whole = json.loads(self.canonical())
        names = ["estimator", "variable", "domain", *question_fields(type(self.estimand))]
        return {name: whole[name] for name in dict.fromkeys(names) if whole[name] not in (None, [])}

    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def check_query(query: Query, codebook: Codebook) -> None:
    """Refuse what the codebook cannot support, naming the first mistakes."""
    parts = (query, *query.parts[1:])
    each = [chain(_misfits(part), _column_mistakes(part, codebook)) for part in parts]
    every = chain(each[0], *(_inside_also(k, part) for k, part in enumerate(each[1:])))
    mistakes = list(islice(every, LISTED))
    if query.estimate is not None and not mistakes:
        mistakes = scale_mistakes(query, query.estimate, query.se)
    if mistakes:
        raise InvalidQuery(mistakes)


def scale_mistakes(
    query: Query, estimate: float, se: float | None, influence: InfluenceFigures | None = None
) -> list[QuestionMistake]:
    """What can be wrong with a tolerance once the (public) synthetic estimate is known."""
    measure = query.measured_by
    if se is None and (measure.needs_se or query.tolerance.kind == "se"):
        return [say("se", "Give the synthetic standard error beside the estimate.")]
    message = measure.refusal(query.terms(estimate, se, influence))
    return [say("tolerance", message)] if message else []


def domain_in_words(domain: tuple[Condition, ...]) -> str:
    """ "gender is Female and region is North or South"."""
    parts = []
    for condition in domain:
        levels = " or ".join(str(level) for level in condition.levels)
        parts.append(f"{condition.column} is {levels}")
    return " and ".join(parts)


def _misfits(query: Query) -> list[QuestionMistake]:
    """Fields that the estimator needs and lacks, or has and does not use."""
    mistakes = []
    estimator = query.catalogue.estimators[query.estimator]
    every = {n for kind in query.catalogue.estimators.values() for n in question_fields(kind)}
    for name in sorted(every):
        present = getattr(query, name) not in (None, ())
        if name in required_fields(estimator) and not present:
            mistakes.append(say(name, f"The estimator `{query.estimator}` needs `{name}`."))
        elif present and name not in question_fields(estimator):
            message = f"The estimator `{query.estimator}` has no `{name}`; leave it out."
            mistakes.append(say(name, message))
    if query.noise not in query.measured_by.noises:
        able = [n for n, kind in query.catalogue.measures.items() if query.noise in kind.noises]
        names = " or ".join(f"`{name}`" for name in able)
        message = f"{query.noise.capitalize()} noise goes with the measure {names} only."
        mistakes.append(say("noise", message))
    if query.measured_by.divides:
        mistakes += _one_number(query)
    if query.also and (query.by or query.estimate is not None):
        mistakes.append(say("also", "`also` goes without `by` and without `estimate`."))
    if query.se is not None and query.estimate is None:
        mistakes.append(say("estimate", "Give the synthetic estimate beside its standard error."))
    return mistakes


def _inside_also(number: int, mistakes: Iterable[QuestionMistake]) -> Iterator[QuestionMistake]:
    """Mistakes of a further estimate, counted from 1."""
    for mistake in mistakes:
        yield say(f"also.{number}.{mistake.field}", f"Estimate {number + 2}: {mistake.message}")


def _one_number(query: Query) -> list[QuestionMistake]:
    """What a measure that divides the file cannot take."""
    mistakes = []
    for name, wrong in (("by", query.by), ("delta", query.delta), ("also", query.also)):
        if wrong:
            message = f"`{name}` goes with the measure `influence` only; leave it out."
            mistakes.append(say(name, message))
    if query.estimand.several:
        message = f"The measure `{query.measure}` is about one coefficient; name it."
        mistakes.append(say("coefficient", message))
    return mistakes


def _column_mistakes(query: Query, codebook: Codebook) -> Iterator[QuestionMistake]:
    estimator = query.catalogue.estimators[query.estimator]
    for name, part in {**question_fields(estimator), "domain": DOMAIN}.items():
        yield from part.mistakes(name, query, codebook)
    for name in query.by or ():
        yield from level_mistakes("by", "by", name, [], codebook)
    if len(set(query.by or ())) < len(query.by or ()):
        yield say("by", "`by` names a column twice.")


def _ordered(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for condition in conditions:
        condition["levels"] = sorted(set(condition["levels"]), key=_typed)
    return sorted(conditions, key=lambda condition: str(condition["column"]))


def _typed(level: Level) -> tuple[str, str]:
    return type(level).__name__, str(level)
