"""Understudy: publish what you may not show, and say exactly what protects it.

Names are imported when they are first used, so that tables never load JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Codebook": "survey.codebook",
    "Column": "survey.codebook",
    "Design": "survey.design",
    "Refused": "errors",
    "Replicates": "survey.design",
    "Survey": "survey.survey",
    "from_svy": "survey.from_svy",
    "read_codebook": "survey.codebook",
    "read_survey": "survey.read",
    "regress": "tables.regress",
    "tabulate": "tables.tabulate",
    "write_codebook": "survey.codebook",
    "write_survey": "survey.write",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from understudy.errors import Refused as Refused
    from understudy.survey.codebook import Codebook as Codebook
    from understudy.survey.codebook import Column as Column
    from understudy.survey.codebook import read_codebook as read_codebook
    from understudy.survey.codebook import write_codebook as write_codebook
    from understudy.survey.design import Design as Design
    from understudy.survey.design import Replicates as Replicates
    from understudy.survey.survey import Survey as Survey


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    value = getattr(import_module(f"understudy.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
