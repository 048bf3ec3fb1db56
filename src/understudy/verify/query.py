"""The question an analyst asks: typed, frozen, and checked by the codebook alone.

Nothing here can see a record, so a refusal tells only what is public (threats 8, 11), and
there is no text to evaluate (threat 12). Equal questions have one canonical form, by which
an answer that was paid for is found again (threat 13).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from understudy.errors import UnknownName
from understudy.ledger.epsilon import parse_epsilon, show_epsilon
from understudy.survey.codebook import Codebook
from understudy.verify.mistakes import InvalidQuery, Mistake, in_our_words, say

Estimator = Literal[
    "total", "mean", "proportion", "ratio", "quantile", "difference", "linear", "logistic"
]
Measure = Literal["discrepancy", "agreement"]
Level = str | int | float | bool

DEFAULT_PARTITIONS = {"agreement": 25, "discrepancy": 50}  # V §3.4; methods §7
FEWEST_PARTITIONS, MOST_PARTITIONS = 2, 1000

Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], Field(strict=False, max_length=30)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, str_max_length=10_000
    )


class Condition(_Strict):
    """One part of a domain: the column takes one of these public levels."""

    column: Name
    levels: Annotated[tuple[Level, ...], Field(strict=False, min_length=1, max_length=1000)]


Domain = Annotated[tuple[Condition, ...], Field(strict=False, max_length=20)]


class Tolerance(_Strict):
    """How near is near enough (V §3.3).

    `value` counts synthetic standard errors ("se") or percent of the synthetic estimate.
    `interval` concerns agreement: "adjusted" widens by sqrt(M), "fixed" does not.
    """

    kind: Literal["se", "percent"] = "se"
    value: Annotated[float, Field(gt=0, le=1e6)]
    interval: Literal["adjusted", "fixed"] = "adjusted"


class Query(_Strict):
    """One question. `estimate` and `se` are the synthetic ones, or None: the server
    computes both from the released files."""

    dataset: Name
    estimator: Estimator
    variable: Name
    level: Level | None = None
    denominator: Name | None = None
    probability: Annotated[float, Field(gt=0, lt=1)] | None = None
    predictors: Names = ()
    coefficient: Name | None = None
    coefficient_level: Level | None = None
    domain: Domain = ()
    versus: Domain = ()
    measure: Measure = "discrepancy"
    tolerance: Tolerance
    partitions: Annotated[int, Field(ge=FEWEST_PARTITIONS, le=MOST_PARTITIONS)] | None = None
    epsilon: str
    estimate: float | None = None
    se: Annotated[float, Field(gt=0)] | None = None
    clip: Annotated[float, Field(ge=0.5, le=20)] = 2.0
    noise: Literal["geometric", "laplace"] = "geometric"
    partitioning: Literal["hash", "equal-size"] = "hash"

    @field_validator("domain", "versus", mode="before")
    @classmethod
    def _mapping_or_list(cls, given: Any) -> Any:
        """{"region": ["North"]} says the same as [{"column": "region", "levels": [...]}]."""
        if not isinstance(given, Mapping):
            return given
        return [
            {"column": c, "levels": v if isinstance(v, (list, tuple)) else [v]}
            for c, v in given.items()
        ]

    @field_validator("epsilon")
    @classmethod
    def _exact(cls, text: str) -> str:
        return show_epsilon(parse_epsilon(text))

    @property
    def micro(self) -> int:
        """The price in millionths; it depends on the request only (threat 14)."""
        return parse_epsilon(self.epsilon)

    @property
    def count(self) -> int:
        """The number of partitions M."""
        return self.partitions or DEFAULT_PARTITIONS[self.measure]

    def canonical(self) -> str:
        """One JSON text for all spellings of the same question."""
        document = self.model_dump(mode="json")
        document["partitions"] = self.count
        document["predictors"] = sorted(document["predictors"])
        for part in ("domain", "versus"):
            for condition in document[part]:
                condition["levels"] = sorted(set(condition["levels"]), key=_typed)
            document[part] = sorted(document[part], key=lambda condition: condition["column"])
        if self.measure == "discrepancy":
            document["tolerance"]["interval"] = "adjusted"
        else:
            document["clip"] = 2.0
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def digest(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def read_query(document: Mapping[str, Any] | str | bytes) -> Query:
    """A query from a JSON text or the mapping it stands for, with all mistakes of form."""
    try:
        if isinstance(document, (str, bytes)):
            return Query.model_validate_json(document)
        return Query.model_validate(dict(document))
    except ValidationError as error:
        told = (in_our_words(one, _fields_at) for one in error.errors(include_url=False))
        mistakes = {mistake.field: mistake for mistake in told}
        raise InvalidQuery(list(mistakes.values())) from None


def check_query(query: Query, codebook: Codebook) -> None:
    """Refuse what the codebook cannot support, naming every mistake."""
    mistakes = [*_misfits(query), *_check_columns(query, codebook)]
    if query.estimate is not None and not mistakes:
        mistakes += scale_mistakes(query, query.estimate, query.se)
    if mistakes:
        raise InvalidQuery(mistakes)


def tolerance_width(query: Query, estimate: float, se: float | None) -> float:
    """Half the width of T(tau_0, alpha), the interval for the whole file (V §3.1)."""
    if query.tolerance.kind == "percent":
        return query.tolerance.value / 100 * abs(estimate)
    return query.tolerance.value * (se or 0.0)


def clip_bound(query: Query, se: float) -> float:
    """c sqrt(M) se_0: the discrepancy that counts as one (methods §7)."""
    return query.clip * math.sqrt(query.count) * se


def scale_mistakes(query: Query, estimate: float, se: float | None) -> list[Mistake]:
    """What can be wrong with a tolerance once the (public) synthetic estimate is known."""
    if se is None and (query.measure == "discrepancy" or query.tolerance.kind == "se"):
        return [Mistake(field="se", message="Give the synthetic standard error beside it.")]
    width = tolerance_width(query, estimate, se)
    if not (math.isfinite(width) and width > 0):
        message = "The tolerance is zero wide here; give it in standard errors instead."
        return [Mistake(field="tolerance", message=message)]
    if query.measure == "discrepancy" and se is not None and width > clip_bound(query, se):
        message = "The tolerance is wider than the range, clip x sqrt(partitions) x se; lower it."
        return [Mistake(field="tolerance", message=message)]
    return []


_OWN_FIELDS: dict[str, tuple[str, ...]] = {
    "total": (),
    "mean": (),
    "proportion": ("level",),
    "ratio": ("denominator",),
    "quantile": ("probability",),
    "difference": ("versus",),
    "linear": ("predictors", "coefficient"),
    "logistic": ("level", "predictors", "coefficient"),
}
_OPTIONAL_FIELDS = {
    "difference": ("level",),
    "linear": ("coefficient_level",),
    "logistic": ("coefficient_level",),
}


def _misfits(query: Query) -> list[Mistake]:
    """Fields that the estimator needs and lacks, or has and does not use."""
    found = []
    needed = _OWN_FIELDS[query.estimator]
    allowed = (*needed, *_OPTIONAL_FIELDS.get(query.estimator, ()))
    every = {name for names in _OWN_FIELDS.values() for name in names} | {"coefficient_level"}
    for name in sorted(every):
        given = getattr(query, name) not in (None, ())
        if name in needed and not given:
            found.append(say(name, f"The estimator `{query.estimator}` needs `{name}`."))
        elif given and name not in allowed:
            found.append(
                say(name, f"The estimator `{query.estimator}` has no `{name}`; leave it out.")
            )
    if query.measure == "discrepancy" and query.noise == "laplace":
        found.append(say("noise", "Laplace noise goes with the measure `agreement` only."))
    if query.se is not None and query.estimate is None:
        found.append(say("estimate", "Give the synthetic estimate beside its standard error."))
    return found


def _check_columns(query: Query, codebook: Codebook) -> list[Mistake]:
    found = []
    if query.estimator in ("proportion", "logistic") or query.level is not None:
        found += _check_level("variable", "level", query.variable, query.level, codebook)
    else:
        found += _check_number("variable", query.variable, codebook)
    if query.denominator is not None:
        found += _check_number("denominator", query.denominator, codebook)
    for name in query.predictors:
        found += _check_predictor(name, codebook)
    used = [*query.predictors, query.variable] if query.predictors else []
    if len(set(used)) < len(used):
        found.append(say("predictors", "The outcome and the predictors must all differ."))
    if query.coefficient is not None and query.predictors:
        found += _check_coefficient(query, codebook)
    for part in ("domain", "versus"):
        columns = [condition.column for condition in getattr(query, part)]
        if len(set(columns)) < len(columns):
            found.append(say(part, f"`{part}` names a column twice; list its levels together."))
        for condition in getattr(query, part):
            for level in condition.levels:
                found += _check_level(part, part, condition.column, level, codebook)
    return list({(m.field, m.message): m for m in found}.values())


def _check_number(field: str, name: str, codebook: Codebook) -> list[Mistake]:
    if name not in codebook:
        return [_unknown(field, name, codebook)]
    column = codebook[name]
    if not column.declared("type"):
        # A type that was read off the data could change with one record (threat 11).
        message = f"The codebook's type of `{name}` is only drafted; the steward must declare it."
        return [say(field, message)]
    if column.type not in ("continuous", "integer") or column.role in ("unit", "replicate"):
        numbers = [c.name for c in codebook if c.type in ("continuous", "integer")]
        shown = ", ".join(f"`{other}`" for other in numbers[:8]) or "none"
        return [say(field, f"`{name}` is not a number; the numeric columns are {shown}.")]
    return []


def _check_level(
    field: str, level_field: str, name: str, level: Level | None, codebook: Codebook
) -> list[Mistake]:
    if name not in codebook:
        return [_unknown(field, name, codebook)]
    column = codebook[name]
    if not column.declared("levels"):
        message = f"The codebook declares no levels for `{name}`; choose a column that has them."
        return [say(field, message)]
    levels = column.levels or ()
    # In Python True == 1; in a database the two do not compare.
    known = any(
        level == other and isinstance(level, bool) == isinstance(other, bool) for other in levels
    )
    if level is not None and not known:
        refusal = UnknownName(f"level of `{name}`", str(level), map(str, levels))
        return [say(level_field, str(refusal))]
    return []


def _check_predictor(name: str, codebook: Codebook) -> list[Mistake]:
    if name in codebook and codebook[name].type == "categorical":
        return _check_level("predictors", "predictors", name, None, codebook)
    return _check_number("predictors", name, codebook)


def _check_coefficient(query: Query, codebook: Codebook) -> list[Mistake]:
    name = query.coefficient or ""
    if name not in query.predictors:
        return [say("coefficient", str(UnknownName("predictor", name, query.predictors)))]
    categorical = name in codebook and codebook[name].type == "categorical"
    if categorical != (query.coefficient_level is not None):
        verb = "needs" if categorical else "takes no"
        message = f"The coefficient of `{name}` {verb} `coefficient_level`."
        return [say("coefficient_level", message)]
    levels = codebook[name].levels if categorical else None
    if not levels:
        return []
    if query.coefficient_level == levels[0]:
        message = f"`{query.coefficient_level}` is the reference level of `{name}`; name another."
        return [say("coefficient_level", message)]
    level = query.coefficient_level
    return _check_level("coefficient", "coefficient_level", name, level, codebook)


def _unknown(field: str, name: str, codebook: Codebook) -> Mistake:
    return say(field, str(UnknownName("column", name, codebook.columns)))


def _fields_at(place: Sequence[int | str]) -> Iterable[str]:
    """The fields that there are where a mistake was made."""
    parts: dict[Any, type[BaseModel]] = {
        "tolerance": Tolerance, "domain": Condition, "versus": Condition,
    }  # fmt: skip
    return (parts.get(place[0], Query) if len(place) > 1 else Query).model_fields


def _typed(level: Level) -> tuple[str, str]:
    return type(level).__name__, str(level)
