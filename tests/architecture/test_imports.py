"""The one way through the house: imports point along design's arrows only."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import understudy
from parsed_source import tree_of

SOURCE = Path(__file__).resolve().parents[2] / "src" / "understudy"

# What everyone speaks of, and what each of these imports.
EVERYONE = {
    "errors": "",
    "version": "",
    "drawing": "",
    "one_blas_thread": "",
    "cluster": "",
    "chance": "errors",
    "declarations": "errors",
    "toml_mistakes": "errors",
    "claim": "errors claim_text",
    "claim_text": "claim",  # for its type alone
    "envelope": "claim errors",
    "internal_mark": "drawing errors",
}


def table() -> dict[str, str]:
    """{room: rooms that it imports} as docs/how-it-works.md says, in its order.

    Exactly what a room uses: a permission that nobody needs is a back door.
    """
    page = SOURCE.parents[1] / "docs" / "how-it-works.md"
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", page.read_text("utf-8"), re.MULTILINE)
    return {room: " ".join(re.findall(r"`(\w+)`", imports)) for room, imports in rows}


ROOMS = table()
MAY_IMPORT = EVERYONE | ROOMS


# Modules that reach JAX when they are imported.
JAX = {"jax", "numpyro", "blackjax", "jaxlib"}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@cache
def rooms_of(path: Path) -> set[str]:
    """The parts that a file imports, also by a text that names a module; `` is the package."""
    tree = tree_of(path.read_text(encoding="utf-8"))
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            package, *parts = node.value.split(".")
            named = package == "understudy" and any(parts)
            if named and SOURCE.joinpath(parts[0]).is_dir():
                names.add(node.value)
    ours = [name.split(".") for name in names if name.split(".")[0] == "understudy"]
    return {pieces[1] if len(pieces) > 1 else "" for pieces in ours}


def used() -> dict[str, dict[str, set[str]]]:
    """{part: {part it imports: files}}, without itself and what everyone speaks of."""
    uses: dict[str, dict[str, set[str]]] = {}
    for path in files():
        part = part_of(path)
        for other in rooms_of(path) - {part} - (set(EVERYONE) if part not in EVERYONE else set()):
            where = str(path.relative_to(SOURCE))
            uses.setdefault(part, {}).setdefault(other, set()).add(where)
    return uses


def test_imports_follow_the_arrows() -> None:
    uses = used()
    assert "__init__" not in uses
    assert {part_of(path) for path in files()} - {"__init__"} == set(MAY_IMPORT)
    for part, others in uses.items():
        assert "" not in others, f"{others['']} import the package itself"
        closed = {other: others[other] for other in set(others) - set(MAY_IMPORT[part].split())}
        assert not closed, f"{part} may not import {closed}"


def test_every_permission_is_used() -> None:
    uses = used()
    for part, allowed in MAY_IMPORT.items():
        idle = set(allowed.split()) - set(uses.get(part, {}))
        assert not idle, f"{part} does not import {idle}; take them out of the table"


def test_risk_enters_a_mechanism_by_one_door() -> None:
    """Only the mechanism whose weights are risks knows how risk is measured."""
    assert used()["mechanisms"]["risk"] == {"mechanisms/risk_weights.py"}


def test_no_room_imports_one_below_it() -> None:
    above: set[str] = set()
    for room, others in ROOMS.items():
        assert set(others.split()) <= above, room
        above.add(room)
    assert len(above) > 15


def test_the_server_knows_no_jax_and_no_seeded_chance() -> None:
    seen: set[str] = set()
    rooms = [p for room in ("verify", "web", "ledger") for p in (SOURCE / room).rglob("*.py")]
    todo = {"understudy." + ".".join(p.relative_to(SOURCE).with_suffix("").parts) for p in rooms}
    assert todo
    while todo:
        module = todo.pop()
        seen.add(module)
        path = SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if not path.exists():
            continue
        names = imported(tree_of(path.read_text(encoding="utf-8")))
        reached = {name.split(".")[0] for name in names}
        assert not reached & JAX, f"{module} reaches JAX"
        if module.startswith(("understudy.verify", "understudy.web", "understudy.ledger")):
            assert "random" not in reached, f"{module} uses random"
            assert "numpy.random" not in names, f"{module} uses numpy.random"
            assert "np.random" not in path.read_text(encoding="utf-8"), module
        todo |= {n for n in names if n.startswith("understudy.")} - seen


@pytest.mark.parametrize("module", ["release.recipe", "release.publish", "release.outside"])
def test_a_whole_file_is_released_without_jax(module: str) -> None:
    """Loading JAX takes longer than reading a recipe; a model that is fitted loads it itself."""
    todo, seen = {f"understudy.{module}"}, set[str]()
    while todo:
        name = todo.pop()
        seen.add(name)
        path = SOURCE.joinpath(*name.split(".")[1:]).with_suffix(".py")
        if not path.exists():
            continue
        loaded = loaded_at_once(tree_of(path.read_text(encoding="utf-8")).body)
        assert not {part.split(".")[0] for part in loaded} & JAX, f"{name} loads JAX"
        todo |= {n for n in loaded if n.startswith("understudy.")} - seen
    assert len(seen) > 20


def loaded_at_once(body: list[ast.stmt]) -> set[str]:
    """What a module loads when it is imported: not in its functions, nor for the checker alone."""
    names = set()
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= imported(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node.test):
            names |= loaded_at_once([*node.body, *node.orelse])
    return names


def test_privacy_noise_comes_from_opendp() -> None:
    for path in files():
        text = path.read_text(encoding="utf-8")
        for call in (".laplace(", ".geometric("):
            for line in text.splitlines():
                if call in line:
                    assert "dp." in line or "stats." in line, f"{path.name}: {line.strip()}"


def test_files_are_small_and_named_for_one_thing() -> None:
    for path in files():
        assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= 500, f"{path.name} has {lines} lines"


def test_the_repository_holds_no_links() -> None:
    """A link to an environment, once checked out, takes the place of the environment itself."""
    asked = ["git", "-C", str(SOURCE.parents[1]), "ls-files", "--stage"]
    kept = subprocess.run(asked, capture_output=True, text=True, check=False)
    if kept.returncode != 0:
        pytest.skip("not a clone: git knows nothing of these files")
    links = [line for line in kept.stdout.splitlines() if line.startswith("120000 ")]
    assert links == []


STUDIES = SOURCE.parents[1] / "studies"


@pytest.mark.parametrize(
    "path", sorted(STUDIES.rglob("*.py")), ids=lambda p: str(p.relative_to(STUDIES))
)
def test_studies_use_public_names_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = [name for name in imported(tree) if name.startswith("understudy.")]
    reached = {node.attr for node in ast.walk(tree) if _of_the_package(node)}
    used = reached | {name.removeprefix("understudy.") for name in inner}
    hidden = used - set(understudy.__all__)
    assert not hidden, f"{path.name} uses {sorted(hidden)}; publish them in understudy/__init__.py"


def _of_the_package(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "us"


def test_the_package_has_no_studies() -> None:
    assert not list((SOURCE / "studies").rglob("*.py"))
    for path in files():
        names = imported(tree_of(path.read_text(encoding="utf-8")))
        assert not [n for n in names if n.startswith("understudy_studies")], path.name
