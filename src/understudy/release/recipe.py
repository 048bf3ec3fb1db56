"""The recipe: release.toml as typed parts, or every mistake in it at once.

    [data]       path, codebook, where          [tables]   statistics, by, margins, correct
    [engine]     kind, master, memory
    [design]     weight, strata, psu, ...       [risk]     known, radius
    [synthesis]  model, sensitive, ...          [utility]  regression
    [privacy]    mechanism, epsilon, ...        [output]   folder, title, formats
    [[given]]    numbers given categories       [ledger]   place, cap

Paths are relative to the recipe. All keys: `recipe_sections.py` and the
classes of models and mechanisms, shown in docs/recipe.md.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.errors import Refused
from understudy.fitting.fit_settings import FitSettings
from understudy.release.model_part import ModelPart
from understudy.release.parts import GivenPart, MechanismPart
from understudy.release.recipe_check import Checked, checked_recipe
from understudy.release.recipe_sections import (
    Data,
    KeptKeys,
    LedgerKeys,
    Output,
    Risk,
    SynthesisKeys,
    Tables,
    Utility,
)
from understudy.report.verdict import Fitness
from understudy.survey.design import Design
from understudy.survey.design_values import design_from
from understudy.survey.engine_setting import Engine
from understudy.toml_mistakes import TomlRefused, lines_of, parse_toml, read_toml_text

SEEDED = (
    "`{}` names a seed, and it is not used: the seed of a release is drawn from the operating "
    "system, so that nobody knows it. Take the line out."
)
SERVER = ("postgresql://", "postgres://")  # a ledger that is not a file


@dataclass(frozen=True)
class Recipe:
    """One release, as the steward wrote it; `written` is the file as plain values."""

    name: str
    folder: Path
    written: Mapping[str, Any] = field(repr=False)
    data: Data
    engine: Engine
    design: Design
    synthesis: SynthesisKeys
    model: ModelPart
    mechanism: MechanismPart
    given: tuple[GivenPart, ...]
    tables: Tables
    risk: Risk | None
    kept: KeptKeys
    utility: Utility
    fitness: Fitness | None  # thresholds that a release must keep to; None: it is told only
    output: Output
    ledger: LedgerKeys | None

    @property
    def out(self) -> Path:
        """Where the bundle goes."""
        return self.folder / (self.output.folder or Path(self.name).stem)

    @property
    def path(self) -> Path:
        """The confidential file, or the name of a table."""
        return self.folder / (self.data.path or self.data.table or "")

    @property
    def codebook(self) -> Path | None:
        return None if self.data.codebook is None else self.folder / self.data.codebook

    @property
    def known(self) -> tuple[tuple[str, ...], ...]:
        """Sets of columns that an intruder knows."""
        return () if self.risk is None else self.risk.known_sets

    @property
    def ledger_location(self) -> tuple[str, Path | None, list[str], Path | None] | None:
        """All that it takes to open the ledger."""
        keys = self.ledger
        if keys is None:
            return None
        address, *witnesses = (
            text if "://" in text else str(self.folder / text)
            for text in (keys.place, *keys.witnesses)
        )
        head, key = (
            None if path is None else self.folder / path for path in (keys.head, keys.head_key)
        )
        return address, head, witnesses, key

    def fit_settings(self, progress: bool | None) -> FitSettings:
        """How the posterior is sampled."""
        keys = self.synthesis
        missing: Any = "refuse" if keys.missing == "level" else keys.missing
        return FitSettings(
            keys.draws, keys.chains, keys.warmup, keys.target_acceptance, missing,
            keys.diagnostics, progress,
        )  # fmt: skip

    def canonical(self) -> str:
        """What decides the release's contents, as one text: where files lie, and the engine that
        counts the records, do not."""
        sections = {part: dict(keys) for part, keys in self.written.items() if part != "given"}
        sections.pop("ledger", None)
        sections.pop("engine", None)
        sections.get("synthesis", {}).pop("seed", None)
        sections.get("output", {}).pop("folder", None)
        return json.dumps({**sections, "given": self.written.get("given", [])}, sort_keys=True)


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a file, checked whole; nothing of the data is read yet."""
    path = Path(path).expanduser()
    return parse_recipe(read_toml_text(path, "recipe"), path.parent, path.name)


def parse_recipe(text: str, folder: Path, name: str = "release.toml") -> Recipe:
    """A recipe from its text; `folder` is what relative paths start from."""
    written = parse_toml(text, name)
    checked = checked_recipe(written, lines_of(text), folder)
    design = _design(checked)
    if checked.mistakes:
        raise TomlRefused(name, checked.mistakes)
    if checked.sections["synthesis"].get("seed") is not None:
        warnings.warn(SEEDED.format(name), UserWarning, stacklevel=2)
    return _recipe(checked, design, written, folder, name)


def _design(checked: Checked) -> Design | None:
    """The design; what Design itself refuses is a mistake of the section."""
    try:
        return design_from(checked.sections.get("design", {}))
    except Refused as refusal:
        checked.add("design", None, str(refusal))
    return None


def _recipe(
    checked: Checked, design: Design | None, written: dict[str, Any], folder: Path, name: str
) -> Recipe:
    """The typed recipe of checked sections."""
    sections = checked.sections
    assert checked.model is not None  # or a mistake was noted
    assert checked.mechanism is not None
    risk, ledger, fitness = (sections.get(name) for name in ("risk", "ledger", "fitness"))
    return Recipe(
        name,
        folder,
        written,
        Data(**sections["data"]),
        Engine(**sections.get("engine", {})),
        design or Design(),
        SynthesisKeys(**sections["synthesis"]),
        checked.model,
        checked.mechanism,
        tuple(checked.given),
        Tables(**sections.get("tables", {"statistics": ()})),
        None if risk is None else Risk(**risk),
        KeptKeys(**sections.get("kept", {})),
        Utility(**sections.get("utility", {})),
        None if fitness is None else Fitness(**fitness),
        Output(**sections.get("output", {})),
        None if ledger is None else LedgerKeys(**ledger),
    )
