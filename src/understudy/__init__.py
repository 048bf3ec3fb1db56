"""Understudy: publish what you may not show, and say exactly what protects it.

Public names are said where they live: a module's `__public__` names them ("name", or "name as
other" under another name), and every model and mechanism is public by itself.
`scripts/write_reference.py` writes them into `__init__.pyi`, where editors and type checkers find
their signatures, and from where they are imported here when they are first used, so that tables
never load JAX.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

_LINE = re.compile(r"^from (\S+) import (\w+) as (\w+)$", re.MULTILINE)
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: (module, own_name) for module, own_name, name in _LINE.findall(_STUB)}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    module, own_name = _HOMES[name]
    value = getattr(import_module(module), own_name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """A public name stays what it is where a module has the same one (`us.influence`): importing
    that module does not take its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
