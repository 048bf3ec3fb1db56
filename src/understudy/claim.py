"""Claim: what a release promises, in words and numbers, and no more than is proved.

Kinds and relations are those of methods §1; the proofs are in docs/proofs.

Numbers are added as decimals, exactly as they are printed: ten releases at 0.1 make 1, not
0.9999999999999999. (A double such as 0.1 is read by its shortest decimal form, which is what
the user typed and what the claim shows.) Only the total is turned back into a double.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Context, Decimal
from typing import Any, Literal, get_args

from understudy.claim_text import claim_text
from understudy.errors import Refused, UnknownName

__public__ = ("Claim",)

ClaimKind = Literal["formal", "asymptotic", "local", "risk"]
Relation = Literal["blank", "replace", "add-remove"]

KINDS: tuple[ClaimKind, ...] = get_args(ClaimKind)  # from strongest to weakest
RELATIONS: tuple[Relation, ...] = get_args(Relation)
SCHEMA = "understudy-claim-2"
WITHOUT_UNIT = "understudy-claim-1"  # of 0.1.0, whose claims are all for one record
RECORD = "record"  # the unit of a claim where the codebook declares none

# Sums and products of the doubles' short decimals need at most a few hundred digits.
_EXACT = Context(prec=2000)


@dataclass(frozen=True)
class Claim:
    """kind, epsilon (None exactly for kind `risk`), delta, relation, conditions, mechanism, unit.

    `epsilon` belongs to `relation`. For `blank` the figure for `replace` stands beside it as
    `epsilon_replace`: twice epsilon unless a smaller one is given, because any replacement is
    a blanking and its reverse (docs/proofs/censoring.md, step 5). It is filled in for formal and
    asymptotic claims with delta = 0, and None otherwise.

    `unit` is what is protected as a whole: one record, or all records with one value in the
    column that the codebook declares as the unit.
    """

    kind: ClaimKind
    epsilon: float | None
    delta: float = 0.0
    relation: Relation = "blank"
    conditions: tuple[str, ...] = ()
    mechanism: str = ""
    epsilon_replace: float | None = None
    unit: str = RECORD

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("kind of claim", str(self.kind), KINDS)
        if self.relation not in RELATIONS:
            raise UnknownName("relation", str(self.relation), RELATIONS)
        _set(self, "conditions", _checked_conditions(self.conditions))
        if not isinstance(self.mechanism, str):
            raise Refused("The mechanism of a claim must be a string.")
        if not isinstance(self.unit, str) or not self.unit.strip():
            raise Refused("The unit of a claim must be `record` or the name of a column.")
        _set(self, "delta", _checked_delta(self.delta))
        if self.kind == "risk":
            if (self.epsilon, self.delta, self.epsilon_replace) != (None, 0.0, None):
                raise Refused("A claim of kind `risk` has no epsilon and no delta; leave them out.")
            return
        if self.epsilon is None:
            raise Refused(f"A claim of kind `{self.kind}` needs an epsilon; only `risk` has none.")
        _set(self, "epsilon", checked_epsilon(self.epsilon))
        _set(self, "epsilon_replace", self._checked_replace())

    def _checked_replace(self) -> float | None:
        epsilon_replace = self.epsilon_replace
        proved = self.relation == "blank" and self.delta == 0 and self.kind != "local"
        if not proved:
            if epsilon_replace is not None:
                raise Refused(
                    "`epsilon_replace` stands beside a formal or asymptotic claim with relation "
                    "`blank` and delta 0; for others state the claim with relation `replace`."
                )
            return None
        twice = float(_EXACT.multiply(2, _decimal(_number(self.epsilon))))
        if epsilon_replace is None:
            return checked_epsilon(twice)
        epsilon_replace = checked_epsilon(epsilon_replace)
        if epsilon_replace > twice:
            raise Refused(
                "`epsilon_replace` must be at most twice epsilon; give a proved figure or none."
            )
        return epsilon_replace

    def scaled(self, m: int) -> Claim:
        """The claim of m independent releases by this mechanism: epsilon and delta times m."""
        if isinstance(m, bool) or not isinstance(m, int) or m < 1:
            raise Refused("A claim is scaled by a whole number of releases, at least 1.")
        return Claim.compose([self] * m) if m > 1 else self

    def under_replace(self) -> Claim:
        """The same promise under `replace`, where that is proved; otherwise refused.

        A replacement is two steps through a third database: blank and fill in again, or remove
        and add. Each step costs (epsilon, delta), so together they cost
        (2 epsilon, (1 + e^epsilon) delta). The third database is not the observed one, so kind
        `local` does not convert.
        """
        if self.relation == "replace" or self.kind == "risk":
            return self
        if self.kind == "local":
            raise Refused(
                "A claim of kind `local` speaks of the observed database only and does not "
                "convert to relation `replace`; state it under one relation."
            )
        epsilon = _number(self.epsilon)
        twice = self.epsilon_replace or float(_EXACT.multiply(2, _decimal(epsilon)))
        delta = 0.0
        if self.delta:
            factor = 1 + math.exp(min(epsilon, 700.0))
            delta = min(math.nextafter(factor * self.delta, math.inf), math.nextafter(1.0, 0.0))
        return replace(self, relation="replace", epsilon=twice, epsilon_replace=None, delta=delta)

    @staticmethod
    def compose(claims: Iterable[Claim]) -> Claim:
        """Sequential composition: what several releases from the same database promise together.

        Epsilons and deltas add, also when a later release was chosen after seeing an earlier
        one; the weakest kind wins; conditions are united. Different relations are brought to
        `replace` where that is proved (`under_replace`). So are claims for a unit beside claims for
        one record: to replace a record's values is to replace those of its unit by others.
        """
        parts = list(claims)
        if not parts:
            raise Refused("There is nothing to compose; give at least one claim.")
        if len(parts) == 1:
            return parts[0]
        kind = max((part.kind for part in parts), key=KINDS.index)
        conditions = _united(condition for part in parts for condition in part.conditions)
        mechanism = " + ".join(_united(part.mechanism for part in parts if part.mechanism))
        if kind == "risk":
            # a part without an epsilon leaves the whole without one, whatever the others promise
            return Claim("risk", None, conditions=conditions, mechanism=mechanism)
        unit = _smallest_unit({part.unit for part in parts})
        if len({(part.relation, part.unit) for part in parts}) > 1:
            parts = [part.under_replace() for part in parts]
        return Claim(
            kind,
            _sum([_number(part.epsilon) for part in parts]),
            delta=_sum([part.delta for part in parts]),
            relation=parts[0].relation,
            conditions=conditions,
            mechanism=mechanism,
            epsilon_replace=_composed_replace(kind, [part.epsilon_replace for part in parts]),
            unit=unit,
        )

    def to_json(self) -> str:
        """One JSON object, with the version of its schema."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Claim:
        """The claim that `to_json` wrote; unknown, missing or repeated fields are refused."""
        values = _json_object(text)
        schema = values.pop("schema", None)
        if schema not in (SCHEMA, WITHOUT_UNIT):
            raise Refused(
                f"This is not a claim of schema `{SCHEMA}`; use the version that wrote it."
            )
        if schema == WITHOUT_UNIT:
            values.setdefault("unit", RECORD)
        known = [field.name for field in fields(Claim)]
        for name in values:
            if name not in known:
                raise UnknownName("field of a claim", name, known)
        missing = [name for name in known if name not in values]
        if missing:
            raise Refused(f"The claim lacks the field `{missing[0]}`; it is not complete.")
        if not isinstance(values["conditions"], list):
            raise Refused("The conditions of a claim must be a list of strings.")
        values["conditions"] = tuple(values["conditions"])
        return Claim(**values)

    def __str__(self) -> str:
        return claim_text(self)


def several(number: int, noun: str) -> str:
    """`1 draw`, `3 draws`: as the name of a mechanism in a claim has it."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def checked_epsilon(epsilon: Any) -> float:
    """epsilon as a float: a finite number above 0, or refused."""
    message = "epsilon must be a finite number above 0."
    if isinstance(epsilon, (bool, str)):
        raise Refused(message)
    try:
        number = float(epsilon)
    except (TypeError, ValueError, OverflowError):
        raise Refused(message) from None
    if not (math.isfinite(number) and number > 0):
        raise Refused(message)
    return number


def _checked_delta(delta: Any) -> float:
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 <= delta < 1:
        raise Refused("delta must be a number from 0 up to, but not including, 1.")
    return float(delta)


def _checked_conditions(conditions: Any) -> tuple[str, ...]:
    if isinstance(conditions, str) or not isinstance(conditions, Sequence):
        raise Refused("The conditions of a claim must be a tuple of sentences, not one text.")
    if not all(isinstance(condition, str) and condition.strip() for condition in conditions):
        raise Refused("Each condition of a claim must be a sentence.")
    return tuple(conditions)


def _composed_replace(kind: ClaimKind, replaced: list[float | None]) -> float | None:
    known = [figure for figure in replaced if figure is not None]
    return _sum(known) if kind != "local" and len(known) == len(replaced) else None


def _smallest_unit(units: set[str]) -> str:
    """What several claims protect together: a record, if one of them does no more."""
    if len(units) == 1:
        return units.pop()
    if RECORD not in units:
        names = " and ".join(f"`{unit}`" for unit in sorted(units))
        raise Refused(f"Claims for different units, {names}, do not add up; use one unit.")
    return RECORD


def _number(epsilon: float | None) -> float:
    if epsilon is None:
        raise Refused("A claim without epsilon has no number to add.")
    return epsilon


def _decimal(number: float) -> Decimal:
    return Decimal(repr(float(number)))


def _sum(numbers: list[float]) -> float:
    total = Decimal(0)
    for number in numbers:
        total = _EXACT.add(total, _decimal(number))
    return float(total)


def _united(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _set(claim: Claim, name: str, value: Any) -> None:
    object.__setattr__(claim, name, value)


def _json_object(text: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise Refused("The claim names a field twice; it was not written by Understudy.")
        return dict(pairs)

    def no_constant(name: str) -> Any:
        raise Refused(f"A claim cannot hold the number `{name}`.")

    try:
        document = json.loads(text, object_pairs_hook=once, parse_constant=no_constant)
    except json.JSONDecodeError:
        raise Refused("This is not a claim: the text is not JSON.") from None
    if not isinstance(document, dict):
        raise Refused("This is not a claim: a JSON object is expected.")
    return document
