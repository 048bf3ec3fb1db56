"""Whether a synthesis must have every record in memory, and what it is told if so."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.declarations import Declared, declared_in
from understudy.mechanisms.contract import Mechanism
from understudy.models.contract import FileModel, Model


def need_of_memory(model: Model, mechanism: Mechanism) -> str:
    """The sentence that refuses the pair where records are on Spark; empty where it runs there."""
    who = next((part for part in (model, mechanism) if part.needs_records), None)
    if who is None:
        return ""
    name = type(who).__name__
    if not _always(type(who)):
        kept = isinstance(who, FileModel)
        name += " with columns that are kept as they are" if kept else " with these settings"
    models = _running(declared_in("understudy.models", Model))
    mechanisms = _running(declared_in("understudy.mechanisms", Mechanism))
    return (
        f"{name} needs every record in memory, and records on Spark, or in a file that is too "
        f"large, stay there; what runs there is {models} under {mechanisms}, or read the file with "
        "DuckDB into memory."
    )


def _always(cls: type[Declared]) -> bool:
    """Whether it needs records whatever its settings are."""
    fact: object = getattr(cls, "needs_records", None)  # a property where it depends on a setting
    if fact is Mechanism.needs_records and issubclass(cls, Mechanism):
        return str(cls.synthesizes) == "outcome"
    return fact is True


def _running(classes: Mapping[str, type[Declared]]) -> str:
    """The names of those that need no record, at least with some settings."""
    names = [name for name, cls in classes.items() if not _always(cls)]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
