"""The configuration of a verification server, from TOML.

    ledger = "ledger.db"              # or postgresql://..., with head = "ledger.head"
    slot_seconds = 1.0                # every reply to a question comes at this time
    [datasets.sdr]
    path = "confidential.parquet"
    codebook = "codebook.toml"
    design = { weight = "w", strata = "field" }
    released = ["synthetic/1.parquet", "synthetic/2.parquet"]
    cap = "10"                        # epsilon that may ever be spent on these records

Paths are relative to the file. Every mistake is one sentence that names its place.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from understudy.errors import Refused, UnknownName
from understudy.ledger.epsilon import parse_epsilon
from understudy.survey.design import Design, Replicates

Combine = Literal["partial", "full"]


@dataclass(frozen=True)
class DatasetConfig:
    """One data set: where its records and its released files are, and its cap."""

    path: Path
    cap: str
    codebook: Path | None = None
    design: Design = field(default_factory=Design)
    released: tuple[Path, ...] = ()
    combine: Combine = "partial"
    workers: int = 2
    deadline: float = 0.2  # CPU seconds of a partition whose estimate is fitted


@dataclass(frozen=True)
class ServerConfig:
    """The server's own settings and its data sets by public name."""

    ledger: str
    datasets: Mapping[str, DatasetConfig]
    head: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    slot_seconds: float = 1.0
    places: int = 8  # questions that are computed within one slot
    requests_per_minute: int = 240
    session_minutes: float = 60.0
    https: bool = False  # behind a proxy that speaks TLS: cookies are then Secure


def read_config(path: str | Path) -> ServerConfig:
    """The configuration in a TOML file, checked whole before anything is opened."""
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise Refused(f"There is no configuration at `{path}`; check the path.") from None
    except (OSError, UnicodeDecodeError):
        raise Refused(f"The configuration `{path.name}` cannot be read as text.") from None
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise Refused(f"The configuration `{path.name}` is not valid TOML: {error}.") from None
    return config_from_dict(document, path.parent)


def config_from_dict(document: Mapping[str, Any], folder: Path) -> ServerConfig:
    """The same from the mapping that the TOML stands for; paths are relative to `folder`."""
    _known("setting", document, ServerConfig)
    datasets = document.get("datasets")
    if not isinstance(datasets, dict) or not datasets:
        raise Refused("The configuration names no data set; add a table [datasets.NAME].")
    given = {name: _plain(name, document[name]) for name in document if name != "datasets"}
    if "ledger" not in given:
        raise Refused('The configuration names no ledger; add ledger = "ledger.db".')
    ledger = str(given.pop("ledger"))
    if "://" not in ledger:
        ledger = str(folder / ledger)
    head = given.pop("head", None)
    return ServerConfig(
        ledger=ledger,
        head=None if head is None else folder / str(head),
        datasets={name: _dataset(name, table, folder) for name, table in datasets.items()},
        **given,
    )


_WANTED: Mapping[str, tuple[type, ...]] = {
    "ledger": (str,),
    "head": (str,),
    "host": (str,),
    "port": (int,),
    "slot_seconds": (int, float),
    "places": (int,),
    "requests_per_minute": (int,),
    "session_minutes": (int, float),
    "https": (bool,),
    "workers": (int,),
    "deadline": (int, float),
    "path": (str,),
    "codebook": (str,),
    "cap": (str,),
    "combine": (str,),
}
_RANGES: Mapping[str, tuple[float, float]] = {
    "port": (0, 65535),
    "slot_seconds": (0.01, 600),
    "places": (1, 1000),
    "requests_per_minute": (1, 1_000_000),
    "session_minutes": (1, 1440),
    "workers": (1, 64),
    "deadline": (0.01, 60),
}


def _plain(name: str, value: Any, place: str = "") -> Any:
    kinds: Any = _WANTED[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = {str: "a text in quotes", bool: "true or false"}.get(kinds[0], "a number")
        raise Refused(f"`{place}{name}` in the configuration must be {wanted}.")
    low, high = _RANGES.get(name, (0.0, 0.0))
    if name in _RANGES and not low <= float(value) <= high:
        raise Refused(f"`{place}{name}` in the configuration must be from {low:g} to {high:g}.")
    return value


def _dataset(name: str, table: Any, folder: Path) -> DatasetConfig:
    place = f"datasets.{name}."
    if not isinstance(table, dict):
        raise Refused(f"[datasets.{name}] in the configuration must be a table.")
    if not 1 <= len(name) <= 200:
        raise Refused("The name of a data set has 1 to 200 characters.")
    _known(f"setting of [datasets.{name}]", table, DatasetConfig)
    special = ("design", "released")
    given = {key: _plain(key, table[key], place) for key in table if key not in special}
    for needed in ("path", "cap"):
        if needed not in given:
            raise Refused(f"[datasets.{name}] lacks `{needed}`.")
    parse_epsilon(given["cap"])
    if given.get("combine", "partial") not in get_args(Combine):
        raise UnknownName(f"`{place}combine`", str(given["combine"]), get_args(Combine))
    for key in ("path", "codebook"):
        if key in given:
            given[key] = folder / given[key]
    released = table.get("released", [])
    if not isinstance(released, list) or not all(isinstance(file, str) for file in released):
        raise Refused(f"`{place}released` in the configuration must be a list of files.")
    return DatasetConfig(
        design=_design(place, table.get("design", {})),
        released=tuple(folder / file for file in released),
        **given,
    )


def _design(place: str, table: Any) -> Design:
    if not isinstance(table, dict):
        raise Refused(f'`{place}design` must be a table, such as {{ weight = "w" }}.')
    _known(f"key of `{place}design`", table, Design)
    given = dict(table)
    replicates = given.pop("replicates", None)
    if replicates is not None:
        if not isinstance(replicates, dict):
            raise Refused(f"`{place}design.replicates` must be a table.")
        _known(f"key of `{place}design.replicates`", replicates, Replicates)
        given["replicates"] = Replicates(**replicates)
    return Design(**given)


def _known(kind: str, table: Mapping[str, Any], holder: type) -> None:
    names = [one.name for one in fields(holder)]
    for name in table:
        if name not in names:
            raise UnknownName(f"{kind} in the configuration", name, names)
