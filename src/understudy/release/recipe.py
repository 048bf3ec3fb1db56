"""The recipe: release.toml as typed parts, or every mistake in it at once.

    [data]       path, codebook, where          [tables]   statistics, by, margins
    [design]     weight, strata, psu, ...       [risk]     known, radius
    [synthesis]  model, sensitive, ...          [utility]  regression
    [privacy]    mechanism, epsilon, ...        [output]   folder, title, formats
    [[given]]    numbers given categories       [ledger]   place, cap

Paths are relative to the recipe. All keys: `recipe_keys.py`, shown in docs/recipe.md.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.errors import Refused
from understudy.release.recipe_check import Checked, Mistake, checked_recipe
from understudy.release.recipe_lines import line_of_error, lines_of
from understudy.survey.design import Design, Replicates

SETTINGS = (
    "datasets", "seed", "missing", "diagnostics", "draws", "chains", "warmup", "target_acceptance",
)  # fmt: skip


@dataclass(frozen=True)
class ModelPart:
    """A model by name, its columns, and the arguments that the recipe gives it."""

    name: str
    sensitive: tuple[str, ...]
    predictors: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MechanismPart:
    """A mechanism by name and the arguments that the recipe gives it."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GivenPart:
    """A regression of numbers on the synthetic categories, with its own mechanism."""

    model: ModelPart
    mechanism: MechanismPart


@dataclass(frozen=True)
class Recipe:
    """One release, as the steward wrote it; `written` is the file as plain values."""

    name: str
    folder: Path
    written: Mapping[str, Any] = field(repr=False)
    path: Path
    design: Design
    model: ModelPart
    mechanism: MechanismPart
    codebook: Path | None = None
    format: str | None = None
    where: str | None = None
    floats: tuple[str, ...] = ()
    given: tuple[GivenPart, ...] = ()
    datasets: int = 1
    seed: int | None = None
    publish: tuple[str, ...] = ()
    missing: str = "refuse"
    diagnostics: str = "refuse"
    draws: int = 2000
    chains: int = 4
    warmup: int = 500
    target_acceptance: float = 0.8
    statistics: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    margins: bool = True
    known: tuple[tuple[str, ...], ...] = ()
    radius: float = 0.2
    threshold: float = 0.5
    regression: str | None = None
    out: Path = Path("release")
    title: str = ""
    formats: tuple[str, ...] = ()
    ledger: str | None = None
    ledger_head: Path | None = None
    ledger_cap: str = ""

    def canonical(self) -> str:
        """What decides the release's contents, as one text: where files lie does not."""
        told = {part: dict(keys) for part, keys in self.written.items() if part != "given"}
        told.pop("ledger", None)
        told.get("output", {}).pop("folder", None)
        return json.dumps({**told, "given": self.written.get("given", [])}, sort_keys=True)


class RecipeRefused(Refused):
    """All mistakes of a recipe, one a line."""

    def __init__(self, name: str, mistakes: list[Mistake]) -> None:
        self.mistakes = mistakes
        told = sorted({(one.line, f"{name}:{one.line}: {one.message}") for one in mistakes})
        super().__init__("\n".join(text for _, text in told))


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a file, checked whole; nothing of the data is read yet."""
    path = Path(path).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Refused(f"The recipe `{path}` cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Refused(f"The recipe `{path.name}` is not a text file in UTF-8.") from None
    return parse_recipe(text, path.parent, path.name)


def parse_recipe(text: str, folder: Path, name: str = "release.toml") -> Recipe:
    """A recipe from its text; `folder` is what relative paths start from."""
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, reason = line_of_error(error)
        message = f"This is not TOML: {reason}."
        raise RecipeRefused(name, [Mistake(line, message)]) from None
    except (ValueError, RecursionError):
        message = "This is not TOML that can be read; write plain keys and values."
        raise RecipeRefused(name, [Mistake(1, message)]) from None
    checked = checked_recipe(written, lines_of(text))
    design = _design(checked)
    if checked.mistakes:
        raise RecipeRefused(name, checked.mistakes)
    return _recipe(checked, design, written, folder, name)


def _design(checked: Checked) -> Design | None:
    """The design; what Design itself refuses is a mistake of the section."""
    told = dict(checked.parts.get("design", {}))
    replicates = told.pop("replicates", None)
    try:
        if replicates is not None:
            told["replicates"] = Replicates(**replicates)
        return Design(**told)
    except Refused as refusal:
        checked.add("design", None, str(refusal))
    except TypeError:
        checked.add(
            "design",
            "replicates",
            "`replicates` takes prefix or columns, kind, fay, coefficients and centre.",
        )
    return None


def _recipe(
    checked: Checked, design: Design | None, written: dict[str, Any], folder: Path, name: str
) -> Recipe:
    part = checked.parts
    data, made, output = part["data"], dict(part["synthesis"]), part.get("output", {})
    tables, risk, ledger = part.get("tables", {}), part.get("risk", {}), part.get("ledger", {})
    settings = {key: made.pop(key) for key in SETTINGS if key in made}
    place = ledger.get("place")
    if place is not None and not place.startswith(("postgresql://", "postgres://")):
        place = str(folder / place)
    return Recipe(
        name=name,
        folder=folder,
        written=written,
        path=folder / data["path"],
        codebook=_under(folder, data.get("codebook")),
        format=data.get("format"),
        where=data.get("where"),
        floats=data.get("floats", ()),
        design=design or Design(),
        publish=made.pop("publish", ()),
        model=_model(made),
        mechanism=_mechanism(part["privacy"]),
        given=tuple(
            GivenPart(
                _model({k: v for k, v in one.items() if k != "privacy"}),
                _mechanism(one["privacy"]),
            )
            for one in checked.given
        ),
        statistics=tables.get("statistics", ()),
        by=tables.get("by", ()),
        margins=tables.get("margins", True),
        known=risk.get("known", ()),
        radius=risk.get("radius", 0.2),
        threshold=risk.get("threshold", 0.5),
        regression=part.get("utility", {}).get("regression"),
        out=folder / output.get("folder", Path(name).stem),
        title=output.get("title", ""),
        formats=output.get("formats", ()),
        ledger=place,
        ledger_head=_under(folder, ledger.get("head")),
        ledger_cap=ledger.get("cap", ""),
        **settings,
    )


def _model(told: Mapping[str, Any]) -> ModelPart:
    rest = dict(told)
    name, sensitive = rest.pop("model"), rest.pop("sensitive")
    return ModelPart(name, sensitive, rest.pop("predictors", None), rest)


def _mechanism(told: Mapping[str, Any]) -> MechanismPart:
    rest = dict(told)
    return MechanismPart(rest.pop("mechanism"), rest)


def _under(folder: Path, path: str | None) -> Path | None:
    return None if path is None else folder / path
