"""Every mistake of a recipe, with its line and the nearest key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.declarations import OWN, Setting, alternatives, choices_of, settings_of
from understudy.dp.additive import noise_for
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import Mechanism
from understudy.mechanisms.record_needs import need_of_memory
from understudy.release.model_part import (
    ModelPart,
    all_models,
    find_model,
    model_settings,
    needs_columns,
    predictors_of,
    takes_several,
)
from understudy.release.parts import GivenPart, MechanismPart, all_mechanisms, find_mechanism
from understudy.release.recipe_sections import (
    RELEASED,
    REQUIRED,
    SECTIONS,
    Data,
    GivenKeys,
    PrivacyKeys,
)
from understudy.release.recipe_values import (
    MISSING,
    UNKNOWN,
    names_file,
    part_of,
    plain,
    problems_in,
)
from understudy.survey.engine_setting import engine_mistakes
from understudy.toml_mistakes import Location, Mistake, line_at


@dataclass
class Checked:
    """The sections of a recipe as plain, checked values, its parts, and what is wrong with it."""

    lines: dict[Location, int]
    folder: Path
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    model: ModelPart | None = None
    mechanism: MechanismPart | None = None
    given: list[GivenPart] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    def add(self, section: str, key: str | None, message: str) -> None:
        location = tuple(name for name in (section, key) if name)
        self.mistakes.append(Mistake(line_at(self.lines, location), message))


def checked_recipe(written: Mapping[str, Any], lines: dict[Location, int], folder: Path) -> Checked:
    checked = Checked(lines, folder)
    for section, keys in written.items():
        if section == "given":
            continue
        if section not in SECTIONS:
            checked.add(section, None, str(UnknownName("section", section, [*SECTIONS, "given"])))
        elif not isinstance(keys, dict):
            checked.add("", section, f"`{section}` is a section: write [{section}] with keys.")
    for section in REQUIRED:
        if section not in written:
            checked.add("", None, f"The section [{section}] is missing.")
    for section, keys in SECTIONS.items():
        values = written.get(section)
        if isinstance(values, dict) and section not in ("synthesis", "privacy"):
            checked.sections[section] = _values(checked, section, values, settings_of(keys))
    if isinstance(written.get("synthesis"), dict):
        checked.model = _model(checked, "synthesis", written["synthesis"], SECTIONS["synthesis"])
    if isinstance(written.get("privacy"), dict):
        checked.mechanism = _mechanism(checked, "privacy", "mechanism", written["privacy"])
    _check_given(checked, written.get("given", []))
    _check_formats(checked)
    _check_source(checked, written.get("data"))
    _check_together(checked)
    return checked


def _values(
    checked: Checked, section: str, values: Mapping[str, Any], settings: Mapping[str, Setting]
) -> dict[str, Any]:
    """The values of a section that are right; what is wrong with the others is noted."""
    problems = problems_in(values, settings)
    for name, (kind, message) in problems.items():
        if kind == UNKNOWN:
            # a key of another model or mechanism is better answered by naming whose it is
            unknown = _owner(section, name) or str(
                UnknownName(f"key in [{section}]", name, settings)
            )
            checked.add(section, name, unknown)
        elif kind == MISSING:
            meaning = settings[name].meaning
            checked.add(section, None, f"[{section}] lacks `{name}`: {meaning}")
        else:
            checked.add(section, name, message)
    return {
        name: plain(settings[name], value) for name, value in values.items() if name not in problems
    }


def _owner(section: str, name: str) -> str:
    owners: list[str] = []
    if section == "privacy":
        owners = [own for own, cls in all_mechanisms().items() if name in settings_of(cls)]
    elif section == "synthesis" or section.startswith("given"):
        owners = [own for own, cls in all_models().items() if name in model_settings(cls)]
    if not owners:
        return ""
    return f"`{name}` belongs to {' or '.join(owners)}; leave it out here, or change to that."


def _model(
    checked: Checked, section: str, values: Mapping[str, Any], keys: type
) -> ModelPart | None:
    """The model of a section, whose other values are kept in `checked.sections`."""
    before = len(checked.mistakes)
    general = settings_of(keys)
    name, cls, function = values.get("model"), None, None
    if isinstance(name, str) and name.strip():
        try:
            cls, function = find_model(name, checked.folder)
        except Refused as refusal:
            checked.add(section, "model", str(refusal))
    own = {} if cls is None else model_settings(cls)
    if cls is None:  # whose keys these are is not known
        values = {key: value for key, value in values.items() if not _owner(section, key)}
    right = _values(checked, section, values, {**general, **own})
    checked.sections[section] = {key: v for key, v in right.items() if key in general}
    if cls is None or not isinstance(name, str):
        return None
    shown = name if function is not None or ":" in name else cls.__name__
    needs = predictors_of(cls) if function is None else "none"
    if needs == "required" and "predictors" not in values:
        checked.add(section, "model", f"{shown} needs `predictors`, such as `field + gender`.")
    if needs == "none" and "predictors" in values:
        checked.add(section, "predictors", f"{shown} takes no predictors; leave them out.")
    if not right.get("sensitive") and "sensitive" not in values and needs_columns(cls):
        checked.add(section, None, f"[{section}] lacks `sensitive`: {general['sensitive'].meaning}")
    if len(right.get("sensitive", ())) > 1 and not takes_several(cls):
        checked.add(section, "sensitive", f"{shown} synthesizes one column; name one.")
    part = ModelPart(
        shown,
        cls,
        tuple(right.get("sensitive", ())),
        right.get("predictors"),
        {key: value for key, value in right.items() if key in own},
        function,
    )
    if len(checked.mistakes) == before:
        try:
            part.build(str(right.get("missing", "refuse")))
        except Refused as refusal:
            checked.add(section, "model", str(refusal))
    return part if len(checked.mistakes) == before else None


def _mechanism(
    checked: Checked,
    section: str,
    key: str,
    values: Mapping[str, Any],
    contract: type[Any] = Mechanism,
    files: bool = True,
) -> MechanismPart | None:
    """The mechanism of a section or of a table inside one; `files`: it may name files."""
    general = settings_of(PrivacyKeys)
    name, cls = values.get("mechanism"), None
    if isinstance(name, str) and name.strip():
        try:
            cls = find_mechanism(name, checked.folder)
        except Refused as refusal:
            checked.add(section, key, str(refusal))
    if cls is None:
        written = {"mechanism": name} if "mechanism" in values else {}
        _values(checked, section, written, general)  # missing, or not a text
        return None
    if not issubclass(cls, contract):
        known = [
            own for own, candidate in all_mechanisms().items() if issubclass(candidate, contract)
        ]
        checked.add(section, key, f"`{key}` names one of {', '.join(known)}.")
        return None
    own = settings_of(cls)
    before = len(checked.mistakes)
    right = _values(checked, section, values, {**general, **own})
    options: dict[str, Any] = {}
    for option, value in right.items():
        if option not in own:
            continue
        inner, words = part_of(own[option]), _words(own[option])
        if isinstance(value, Mapping) and inner is not None:
            options[option] = _mechanism(checked, section, option, value, inner, files)
        elif isinstance(value, str) and names_file(own[option]) and value not in words:
            if not files:
                checked.add(section, key, f"[[given]] takes no `{option}` file.")
            options[option] = checked.folder / value
        else:
            options[option] = value
    assert isinstance(name, str)
    part = MechanismPart(name if ":" in name else cls.__name__, cls, options)
    if len(checked.mistakes) == before and not list(part.files()):
        try:
            part.build(_unread)
        except Refused as refusal:
            checked.add(section, key, str(refusal))
    return part if len(checked.mistakes) == before else None


def _words(setting: Setting) -> tuple[Any, ...]:
    """The words that stand instead of a file, such as `two-stage`."""
    return tuple(word for kind in alternatives(setting.type) for word in choices_of(kind))


def _unread(path: Path) -> Any:
    raise Refused(f"`{path.name}` is read later.")


def _check_given(checked: Checked, sections: Any) -> None:
    if not isinstance(sections, list) or not all(isinstance(entry, dict) for entry in sections):
        checked.add("given", None, "`given` is a list of sections: write [[given]] with keys.")
        return
    for number, values in enumerate(sections, start=1):
        section = f"given {number}"
        model = _model(checked, section, values, GivenKeys)
        privacy = checked.sections.pop(section, {}).get("privacy")
        mechanism = None
        if isinstance(privacy, Mapping):
            mechanism = _mechanism(checked, section, "privacy", privacy, files=False)
        if model is not None and mechanism is not None:
            _check_pair(checked, section, "privacy", model, mechanism)
            checked.given.append(GivenPart(model, mechanism))


def _check_formats(checked: Checked) -> None:
    for wanted in checked.sections.get("output", {}).get("formats", ()):
        if OWN not in wanted and f".{wanted}" not in RELEASED:
            endings = [ending.removeprefix(".") for ending in RELEASED]
            checked.add("output", "formats", str(UnknownName("format", wanted, endings)))


def _check_pair(
    checked: Checked, section: str, key: str, model: ModelPart, mechanism: MechanismPart
) -> None:
    """A mechanism protects what the model synthesizes, or does not go with it."""
    does = mechanism.facts().synthesizes
    if model.cls.synthesizes in does:
        return
    if model.cls.synthesizes != "outcome":
        kind = model.cls.synthesizes
        known = [own for own, cls in all_mechanisms().items() if kind in str(cls.synthesizes)]
        checked.add(section, key, f"A {model.name} model goes with {', '.join(known)}.")
    else:
        known = [own for own, cls in all_models().items() if cls.synthesizes in does]
        checked.add(section, key, f"{mechanism.name} goes with model = {' or '.join(known)}.")


def _check_together(checked: Checked) -> None:
    model, mechanism = checked.model, checked.mechanism
    if model is not None and mechanism is not None:
        _check_pair(checked, "privacy", "mechanism", model, mechanism)
    if checked.given and model is not None and model.cls.synthesizes != "rows":
        rows = [own for own, cls in all_models().items() if cls.synthesizes == "rows"]
        checked.add("given 1", None, f"[[given]] follows a {' or '.join(rows)} model.")
    _check_corrections(checked)
    if "ledger" in checked.sections and mechanism is not None:
        for part in (mechanism, *(step.mechanism for step in checked.given)):
            _check_price(checked, part)


def _check_source(checked: Checked, data: Any) -> None:
    """Where the records are, and that the model can work there; `data` is [data] as written."""
    keys = checked.sections.get("engine", {})
    for key, message in engine_mistakes(keys).items():
        checked.add("engine", key, message)
    spark = keys.get("kind") == "spark"
    if isinstance(data, dict):
        if "path" not in data and "table" not in data:
            checked.add("data", None, f"[data] lacks `path`: {settings_of(Data)['path'].meaning}")
        if "path" in data and "table" in data:
            checked.add("data", "table", "[data] has a `path` and a `table`; leave one out.")
        if "table" in data and not spark:
            checked.add(
                "data", "table", 'A `table` is read by Spark: say kind = "spark" in [engine].'
            )
        if spark and "implicates" in data:
            checked.add(
                "data", "implicates", "Implicates are compared record by record, not on Spark."
            )
    if not spark:
        return
    model, mechanism = checked.model, checked.mechanism
    if model is not None and mechanism is not None:
        needed = need_of_memory(model.build(), mechanism.facts())
        if needed:
            checked.add("engine", "kind", needed)
    if "risk" in checked.sections and model is not None and model.cls.synthesizes == "outcome":
        checked.add(
            "risk",
            None,
            "Risk is measured beside each record, and these stay on Spark: leave [risk] out, and "
            "measure it there by `us.risk_table`.",
        )
    if checked.given:
        checked.add(
            "engine", "kind", "A regression of [[given]] needs the records in memory, not on Spark."
        )


def _check_corrections(checked: Checked) -> None:
    """A corrected table has cells, noise of its own, and files that claim something too."""
    tables = checked.sections.get("tables", {})
    epsilon, delta = tables.get("correct"), tables.get("correct_delta", 0.0)
    if epsilon is None:
        if "correct_delta" in tables:
            checked.add("tables", "correct_delta", "`correct_delta` stands beside `correct`.")
        return
    try:
        noise_for(epsilon, delta)
    except Refused as refusal:
        checked.add("tables", "correct", f"`correct` and `correct_delta`: {refusal}")
    if not tables.get("by"):
        checked.add("tables", "correct", "A corrected table has cells; name columns in `by`.")
    parts = [checked.mechanism, *(step.mechanism for step in checked.given)]
    for part in parts:
        if part is not None and part.facts().claims == "risk":
            checked.add(
                "tables",
                "correct",
                f"Corrections have an epsilon, and {part.name} claims none for the files beside "
                "them; take a mechanism with an epsilon, or leave out `correct`.",
            )


def _check_price(checked: Checked, part: MechanismPart) -> None:
    """A ledger counts guarantees whose price is known before any record is fitted."""
    facts = part.facts()
    if facts.claims == "local":
        remedy = (
            "use public or threshold as `support`"
            if hasattr(facts, "support")
            else "say `weighted = false`, or take the weights from a historical file"
        )
        checked.add(
            "privacy",
            "support" if "support" in part.options else "mechanism",
            "A ledger counts guarantees, and a claim of kind `local` is not one; "
            f"{remedy}, or leave out [ledger].",
        )
    elif facts.epsilon is None or facts.claims == "risk":
        checked.add(
            "privacy",
            "mechanism",
            "A ledger counts epsilon, and this mechanism states none beforehand; give `epsilon`, "
            "or leave out [ledger].",
        )
