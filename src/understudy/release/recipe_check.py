"""Every mistake of a recipe, with its line and the nearest key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.declarations import OWN
from understudy.errors import UnknownName
from understudy.release.recipe_keys import (
    COUNT_MECHANISMS,
    MAY_HAVE_PREDICTORS,
    MECHANISM_KEYS,
    MODEL_KEYS,
    PREDICTORS,
    RELEASED,
    REQUIRED_SECTIONS,
    SECTIONS,
    Key,
)
from understudy.release.recipe_lines import Place

GIVEN_KEYS = {
    **{name: SECTIONS["synthesis"][name] for name in ("model", "sensitive", "predictors")},
    "privacy": Key("table", "The regression's own mechanism.", True),
}
MOST = {  # beyond these nobody waits for the end
    "datasets": 1_000, "draws": 10_000_000, "chains": 1_000, "warmup": 1_000_000,
    "components": 1_000, "size": 1_000_000_000,
}  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    line: int
    message: str


@dataclass
class Checked:
    """The parts of a recipe as plain, checked values, and what is wrong with it."""

    lines: dict[Place, int]
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    given: list[dict[str, Any]] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    def add(self, section: str, key: str | None, message: str) -> None:
        line = self.lines.get((section, key)) or self.lines.get((section, None)) or 1
        self.mistakes.append(Mistake(line, message))


def checked_recipe(written: Mapping[str, Any], lines: dict[Place, int]) -> Checked:
    checked = Checked(lines)
    for section, keys in written.items():
        if section == "given":
            continue
        if section not in SECTIONS:
            unknown = UnknownName("section", section, [*SECTIONS, "given"])
            checked.add(section, None, str(unknown))
        elif not isinstance(keys, dict):
            checked.add("", section, f"`{section}` is a section: write [{section}] with keys.")
    for section in REQUIRED_SECTIONS:
        if section not in written:
            checked.add("", None, f"The section [{section}] is missing.")
    for section, known in SECTIONS.items():
        told = written.get(section)
        if isinstance(told, dict):
            keys = {**known, **_further(section, told)}
            checked.parts[section] = _values(checked, section, told, keys)
    _check_given(checked, written.get("given", []))
    _check_together(checked)
    return checked


def _further(section: str, told: Mapping[str, Any]) -> dict[str, Key]:
    """The keys that belong to the model or mechanism that is named."""
    if section == "synthesis":
        return MODEL_KEYS.get(str(told.get("model")), {})
    if section == "privacy":
        return MECHANISM_KEYS.get(str(told.get("mechanism")), {})
    return {}


def _values(
    checked: Checked, section: str, told: Mapping[str, Any], known: Mapping[str, Key]
) -> dict[str, Any]:
    values = {}
    for name, value in told.items():
        if name not in known:
            # a key of another model or mechanism is better answered by naming whose it is
            of = _owner(section, name)
            unknown = of or str(UnknownName(f"key in [{section}]", name, known))
            checked.add(section, name, unknown)
            continue
        problem, plain = _value(known[name], value)
        if problem:
            checked.add(section, name, f"`{name}` must be {problem}.")
        else:
            values[name] = plain
    for name, key in known.items():
        if key.required and name not in told:
            checked.add(section, None, f"[{section}] lacks `{name}`: {key.words}")
    _check_names(checked, section, values)
    return values


def _owner(section: str, name: str) -> str:
    tables = {"synthesis": MODEL_KEYS, "privacy": MECHANISM_KEYS}.get(section, {})
    owners = [owner for owner, keys in tables.items() if name in keys]
    if not owners:
        return ""
    return f"`{name}` belongs to {' or '.join(owners)}; leave it out here, or change to that."


def _value(key: Key, value: Any) -> tuple[str, Any]:
    """(what is wrong, in words; the plain value)"""
    match key.kind:
        case "text" | "path":
            ok = isinstance(value, str) and bool(value.strip()) and "\0" not in value
            return ("" if ok else "a text in quotes"), value
        case "texts":
            listed = [value] if isinstance(value, str) else value
            ok = isinstance(listed, list) and all(isinstance(v, str) and v for v in listed)
            ok = ok and len(set(listed)) == len(listed)
            return ("" if ok else "a text, or a list of different texts"), tuple(
                listed if ok else ()
            )
        case "whole":
            ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
            return ("" if ok else "a whole number from 0"), value
        case "number":
            return ("" if _is_number(value) else "a finite number"), value
        case "numbers":
            ok = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
            return ("" if ok else "two numbers, low before high"), tuple(value if ok else ())
        case "yes or no":
            return ("" if isinstance(value, bool) else "true or false"), value
        case "table":
            return ("" if isinstance(value, dict) else "a table, such as { key = 1 }"), value
        case "any":
            plain = isinstance(value, (str, list)) or _is_number(value)
            return ("" if plain else "a text, a number or a list"), value


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _check_names(checked: Checked, section: str, values: dict[str, Any]) -> None:
    """Names of models, mechanisms and formats; known columns as a list of lists."""
    model, mechanism = values.get("model"), values.get("mechanism")
    if model is not None and OWN not in model and model not in MODEL_KEYS:
        checked.add(section, "model", str(UnknownName("model", model, MODEL_KEYS)))
    if mechanism is not None and mechanism not in MECHANISM_KEYS:
        checked.add(section, "mechanism", str(UnknownName("mechanism", mechanism, MECHANISM_KEYS)))
    for wanted in values.get("formats", ()):
        if OWN not in wanted and f".{wanted}" not in RELEASED:
            endings = [ending.removeprefix(".") for ending in RELEASED]
            checked.add(section, "formats", str(UnknownName("format", wanted, endings)))
    if section == "risk" and "known" in values:
        sets = values["known"] if isinstance(values["known"], list) else [values["known"]]
        sets = sets if all(isinstance(one, list) for one in sets) else [sets]
        if not all(isinstance(name, str) for one in sets for name in one) or not sets:
            checked.add(section, "known", "`known` must be a list of columns, or several lists.")
        values["known"] = tuple(tuple(one) for one in sets)
    for name, most in MOST.items():
        if isinstance(values.get(name), int) and not 1 <= values[name] <= most:
            checked.add(section, name, f"`{name}` must be a whole number from 1 to {most:,}.")
    if isinstance(values.get("weights"), dict):
        told = values["weights"]
        known = {**SECTIONS["privacy"], **_further("privacy", told)}
        values["weights"] = _values(checked, section, told, known)
        if "reference" in told:
            checked.add(section, "weights", "`weights` takes no `reference` in a recipe.")
        if "Risk" not in str(told.get("mechanism")):
            checked.add(section, "weights", "`weights` names a risk mechanism, as PairwiseRisk.")


def _check_given(checked: Checked, given: Any) -> None:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        checked.add("given", None, "`given` is a list of sections: write [[given]] with keys.")
        return
    for number, one in enumerate(given, start=1):
        section = f"given {number}"
        known = {**GIVEN_KEYS, **MODEL_KEYS.get(str(one.get("model")), {})}
        values = _values(checked, section, one, known)
        if isinstance(values.get("privacy"), dict):
            told = values["privacy"]
            inner = {**SECTIONS["privacy"], **_further("privacy", told)}
            values["privacy"] = _values(checked, section, told, inner)
            if told.get("reference") not in (None, "two-stage"):
                checked.add(section, "privacy", "[[given]] takes no `reference` file.")
        _check_model(checked, section, values)
        checked.given.append(values)


def _check_model(checked: Checked, section: str, told: Mapping[str, Any]) -> None:
    model = told.get("model")
    if model in PREDICTORS and "predictors" not in told:
        checked.add(section, "model", f"{model} needs `predictors`, such as `field + gender`.")
    known = model in MODEL_KEYS or OWN in str(model)
    if known and model not in MAY_HAVE_PREDICTORS and "predictors" in told:
        checked.add(section, "predictors", f"{model} takes no predictors; leave them out.")
    several = len(told.get("sensitive", ())) > 1
    if several and model in ("Beta", "BetaRegression", "NegativeBinomial", "Mixture"):
        checked.add(section, "sensitive", f"{model} synthesizes one column; name one.")


def _check_together(checked: Checked) -> None:
    made, privacy = checked.parts.get("synthesis", {}), checked.parts.get("privacy", {})
    model, mechanism = made.get("model"), privacy.get("mechanism")
    _check_model(checked, "synthesis", made)
    if model == "Multinomial" and mechanism in MECHANISM_KEYS:
        if mechanism not in COUNT_MECHANISMS:
            known = ", ".join(COUNT_MECHANISMS)
            checked.add("privacy", "mechanism", f"A Multinomial model goes with {known}.")
    elif mechanism in ("Modips", "Marginals"):
        checked.add("privacy", "mechanism", f"{mechanism} goes with model = Multinomial.")
    if checked.given and model != "Multinomial":
        checked.add("given 1", None, "[[given]] follows a Multinomial model of the categories.")
    observed = mechanism == "Modips" and privacy.get("support", "observed") == "observed"
    if "ledger" in checked.parts and observed:
        checked.add(
            "privacy",
            "support",
            "A ledger counts guarantees, and support = observed gives none; use public or "
            "threshold, or leave out [ledger].",
        )
    if "ledger" in checked.parts and not _priced(privacy, checked.given):
        checked.add(
            "privacy",
            "mechanism",
            "A ledger counts epsilon, and this mechanism states none beforehand; give `epsilon`, "
            "or leave out [ledger].",
        )


def _priced(privacy: Mapping[str, Any], given: list[dict[str, Any]]) -> bool:
    parts = [privacy, *(one.get("privacy", {}) for one in given)]
    return all("epsilon" in part for part in parts)
