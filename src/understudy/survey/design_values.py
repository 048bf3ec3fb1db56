"""A design as plain values: of TOML, of JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from understudy.declarations import settings_of
from understudy.errors import Refused, UnknownName
from understudy.survey.design import Design, Replicates, Stage


def design_to(design: Design) -> dict[str, Any]:
    """A design as JSON values."""
    return {name: value for name, value in asdict(design).items() if value not in (None, ())}


def design_from(values: Mapping[str, Any]) -> Design:
    """A design from what `design_to` wrote, or from a table of a recipe or a configuration."""
    settings = _known(values, Design, "design")
    if settings.get("replicates") is not None:
        table = _known(settings["replicates"], Replicates, "design.replicates")
        try:
            settings["replicates"] = Replicates(**table)
        except TypeError:
            raise Refused(
                "In `design.replicates` columns are a list of names, fay is a number, and "
                "coefficients are a list of numbers."
            ) from None
    stages = settings.pop("stages", ())
    if not isinstance(stages, (list, tuple)):
        raise Refused("`stages` of the design is a list of tables, each with `unit` and `fpc`.")
    settings["stages"] = [Stage(**_stage(table)) for table in stages]
    return Design(**settings)


def _stage(table: Any) -> dict[str, Any]:
    values = _known(table, Stage, "design.stages")
    values = {name: value for name, value in values.items() if value is not None}
    for name, setting in settings_of(Stage).items():
        if not isinstance(values.get(name, None if setting.required else ""), str):
            raise Refused(
                f"A later stage of the design needs `{name}`, the name of a column in quotes."
            )
    return values


def _known(table: Any, holder: type, part: str) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise Refused(f"`{part}` must be a table with keys.")
    names = [field.name for field in fields(holder)]
    for name in table:
        if name not in names:
            raise UnknownName(f"key of `{part}`", name, names)
    return dict(table)
