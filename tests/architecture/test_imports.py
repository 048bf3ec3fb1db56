"""The one way through the house: imports point along design's arrows only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import understudy

SOURCE = Path(__file__).resolve().parents[2] / "src" / "understudy"

# What each part may import, besides itself and the standard names below.
EVERYONE = {
    "chance",
    "errors",
    "claim",
    "claim_text",
    "declarations",
    "drawing",
    "toml_mistakes",
    "version",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "claim": {"errors"},
    "claim_text": {"errors"},
    "declarations": {"errors"},
    "drawing": set(),
    "chance": set(),
    "toml_mistakes": {"errors"},
    "version": set(),
    "survey": set(),
    "tables": {"survey"},
    "models": {"survey", "tables"},
    "dp": set(),
    "ledger": set(),
    "mechanisms": {"survey", "tables", "dp", "models", "risk"},
    "fitting": {"survey", "dp", "models", "mechanisms"},
    "audit": {"survey", "tables", "dp", "models", "mechanisms"},
    "risk": {"survey", "tables"},
    "utility": {"survey", "tables"},
    "publication": {"survey", "tables", "models"},
    "synthesis": {"publication", "survey", "tables", "dp", "models", "mechanisms", "fitting"},
    "verify": {"survey", "tables", "dp", "ledger"},
    "web": {"survey", "ledger", "verify"},
}
LAST = ["report", "release", "demo", "cli"]
BELOW = set(MAY_IMPORT)
for part in LAST:
    MAY_IMPORT[part] = set(BELOW)
    BELOW.add(part)
for part in ("report", "release"):  # the server uses what they make, never the other way round
    MAY_IMPORT[part] -= {"verify", "web"}


# Modules that reach JAX when they are imported.
JAX = {"jax", "numpyro", "blackjax", "jaxlib"}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    part = part_of(path)
    if part == "__init__":
        return
    assert part in MAY_IMPORT, f"say in this test what `{part}` may import"
    allowed = MAY_IMPORT[part] | EVERYONE | {part}
    for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        pieces = name.split(".")
        if pieces[0] == "understudy" and len(pieces) > 1:
            assert pieces[1] in allowed, f"{path.name} imports {name}"
        whole = name == "understudy" and part != "studies"
        assert not whole, f"{path.name} imports the package itself"


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
        names = imported(ast.parse(path.read_text(encoding="utf-8")))
        reached = {name.split(".")[0] for name in names}
        assert not reached & JAX, f"{module} reaches JAX"
        if module.startswith(("understudy.verify", "understudy.web", "understudy.ledger")):
            assert "random" not in reached, f"{module} uses random"
            assert "numpy.random" not in names, f"{module} uses numpy.random"
            assert "np.random" not in path.read_text(encoding="utf-8"), module
        todo |= {n for n in names if n.startswith("understudy.")} - seen


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
        names = imported(ast.parse(path.read_text(encoding="utf-8")))
        assert not [n for n in names if n.startswith("understudy_studies")], path.name
