"""Peers that live in environments of their own (scripts/bench-components), and R's rstan."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
HINT = "scripts/bench-components"


def python_of(environment: str) -> Path | None:
    """The interpreter of a peer's environment; None where it is not installed."""
    folder = ROOT / "build" / "peers" / environment
    return folder / "bin" / "python" if (folder / ".installed").exists() else None


@cache
def has_rstan() -> bool:
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", 'cat(requireNamespace("rstan", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "TRUE"


def last_line(command: list[str], most_cpu: int | None = None) -> Any:
    """What a peer's program prints last, as JSON; it may use so many seconds of processor time."""
    limit = [] if most_cpu is None else ["prlimit", f"--cpu={most_cpu}"]
    ran = subprocess.run([*limit, *command], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{Path(command[1]).name} failed: {ran.stderr[-1500:]}")
    return json.loads(ran.stdout.strip().splitlines()[-1])
