"""A class's name has one meaning in the package."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "understudy"


def classes_by_name(folder: Path) -> dict[str, list[str]]:
    """{name: modules} of the public classes at the top of all modules."""
    modules: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(str(path.relative_to(folder)))
    return modules


def test_no_two_public_classes_share_a_name() -> None:
    modules = classes_by_name(PACKAGE)
    assert len(modules) > 200
    shared = {name: where for name, where in modules.items() if len(where) > 1}
    assert not shared, shared


def test_a_shared_name_is_seen(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("class Terms:\n    pass\n\n\nclass _Chain:\n    pass\n")
    assert classes_by_name(tmp_path) == {"Terms": ["one.py", "two.py"]}
