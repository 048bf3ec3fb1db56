"""The name of a class or a type has one meaning in the package."""

from __future__ import annotations

import ast
from pathlib import Path

from parsed_source import tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "understudy"


def classes_by_name(folder: Path) -> dict[str, list[str]]:
    """{name: modules} of the public classes at the top of all modules."""
    modules: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in tree_of(path.read_text(encoding="utf-8")).body:
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


def types_by_name(folder: Path) -> dict[str, set[str]]:
    """{name: definitions} of the classes and type aliases at the top of all modules."""
    definitions: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in tree_of(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                name, meaning = node.name, f"class of {path.relative_to(folder)}"
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, meaning = node.targets[0].id, ast.unparse(node.value).replace("npt.", "")
            else:
                continue
            if name[0].isupper() and not name.isupper():
                definitions.setdefault(name, set()).add(meaning)
    return definitions


def test_a_type_means_the_same_everywhere() -> None:
    several = {name: kinds for name, kinds in types_by_name(PACKAGE).items() if len(kinds) > 1}
    assert not several, several


def test_two_meanings_of_a_type_are_seen(tmp_path: Path) -> None:
    (tmp_path / "claim.py").write_text(
        "Kind = Literal['formal', 'risk']\nFloats = NDArray[float]\n"
    )
    (tmp_path / "combine.py").write_text("Kind = Literal['partial']\nFloats = NDArray[float]\n")
    several = {name for name, kinds in types_by_name(tmp_path).items() if len(kinds) > 1}
    assert several == {"Kind"}
