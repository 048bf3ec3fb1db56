"""No ordinary test reads the machine's clock: what a busy machine takes is not what is tested.

Where true seconds are the subject the file is marked slow as a whole; elsewhere a clock is
virtual, or the test counts what is loaded and done. Speed belongs to bench/.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (ROOT / "tests", ROOT / "studies" / "tests")
FILES = sorted(path for room in ROOMS for path in room.rglob("*.py") if path != Path(__file__))
CLOCKS = {
    "time": {"time", "perf_counter", "process_time", "monotonic", "thread_time", "clock_gettime"},
    "timeit": {"timeit", "repeat", "default_timer"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "resource": {"getrusage"},
    "os": {"times"},
}
READERS = {f"{module}.{name}" for module, names in CLOCKS.items() for name in names}
NAMES = {name for names in CLOCKS.values() for name in names}
MENTIONED = re.compile(rf"\b(?:{'|'.join(sorted(NAMES))})(?:_ns)?\b")


def readings(text: str) -> list[int]:
    """Lines that read a clock, under whatever name it was imported, with or without `_ns`."""
    if not MENTIONED.search(text):
        return []
    tree = ast.parse(text)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                names[alias.asname or alias.name] = f"{origin}{alias.name}"
    lines = []
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and node.attr.removesuffix("_ns") in NAMES) or (
            isinstance(node, ast.Name) and node.id in names
        ):
            first, _, rest = ast.unparse(node).partition(".")
            dotted = f"{names.get(first, first)}.{rest}".rstrip(".").removesuffix("_ns")
            if ".".join(dotted.split(".")[-2:]) in READERS:
                lines.append(node.lineno)
    return sorted(set(lines))


def is_slow(text: str) -> bool:
    """`pytestmark` of the file holds the marker `slow`."""
    return "pytest.mark.slow" in text and any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and "pytest.mark.slow" in ast.unparse(node.value)
        for node in ast.parse(text).body
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_slow_files_read_the_clock(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert readings(text) == [] or is_slow(text)


@pytest.mark.parametrize(
    "code",
    [
        "import time\nstart = time.perf_counter()",
        "import time as t\nt.monotonic_ns()",
        "from time import process_time as cpu\ncpu()",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now()",
        "import timeit\ntimeit.timeit('1')",
    ],
)
def test_every_way_to_read_a_clock_is_seen(code: str) -> None:
    assert readings(code) == [2]
    assert readings("import time\ntime.sleep(1)\nloop.time()\nclock.now") == []
