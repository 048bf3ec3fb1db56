"""The engine that reads and counts records: DuckDB in this process, or Spark on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from annotated_types import Interval

from understudy.errors import Refused, UnknownName

__public__ = ("Engine",)

MOST_THREADS = 4096
KINDS = ("duckdb", "spark")
OWN = {"duckdb": ("memory", "threads"), "spark": ("master",)}  # the keys of each
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?\s*[KMGT]i?B", re.IGNORECASE)


@dataclass(frozen=True)
class Engine:
    """DuckDB works in this process and keeps on disk what `memory` does not hold. Spark takes the
    session that is active in the process, or starts one at `master`; records stay on its workers.
    """

    kind: Annotated[
        Literal["duckdb", "spark"],
        "Where records are read and counted: in this process, or on a cluster.",
    ] = "duckdb"
    master: Annotated[
        str | None,
        "Of Spark: its address, `spark://host:7077` or `local[2]`; by default the session that is "
        "active, or what Spark's own settings say.",
    ] = None
    memory: Annotated[
        str | None,
        "Of DuckDB: the most memory that it takes, such as `4GB`; the rest is on disk.",
    ] = None
    threads: Annotated[
        int | None, "Of DuckDB: the most processors.", Interval(ge=1, le=MOST_THREADS)
    ] = None

    def __post_init__(self) -> None:
        for mistake in engine_mistakes(asdict(self)).values():
            raise Refused(mistake)

    @property
    def on_cluster(self) -> bool:
        return self.kind == "spark"


def engine_mistakes(values: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with an engine's settings, by key; nothing where all is right."""
    kind = values.get("kind", "duckdb")
    if kind not in KINDS:
        return {"kind": str(UnknownName("choice of `kind`", str(kind), KINDS))}
    mistakes = {}
    for owner, names in OWN.items():
        for name in names:
            if owner != kind and values.get(name) is not None:
                mistakes[name] = (
                    f'`{name}` belongs to kind = "{owner}"; leave it out here, or change to that.'
                )
    memory, threads, master = (values.get(name) for name in ("memory", "threads", "master"))
    if memory is not None and not (isinstance(memory, str) and _MEMORY.fullmatch(memory.strip())):
        mistakes.setdefault("memory", '`memory` is a number with its unit, such as "4GB".')
    whole = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is not None and not (whole and 1 <= threads <= MOST_THREADS):
        mistakes.setdefault(
            "threads", f"`threads` must be a whole number from 1 to {MOST_THREADS:,}."
        )
    if master is not None and not (isinstance(master, str) and master.strip()):
        mistakes.setdefault("master", '`master` must be an address in quotes, such as "local[2]".')
    return mistakes
