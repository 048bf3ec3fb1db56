"""The confidential file is read once, and each table is computed once."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.ledger import fingerprint
from understudy.release import check, inside, publish
from understudy.release.check import confidential_table
from understudy.release.recipe import read_recipe

RECIPE = """\
[data]
path = "file.parquet"
codebook = "codebook.toml"

[design]
weight = "w"

[synthesis]
model = "Multinomial"
sensitive = ["sex", "region"]

[privacy]
mechanism = "Unweighted"

[tables]
statistics = ["count"]
by = ["sex"]
"""
CODEBOOK = """\
[columns.sex]
role = "sensitive"
type = "categorical"
levels = ["f", "m"]

[columns.region]
role = "sensitive"
type = "categorical"
levels = ["north", "south"]

[columns.w]
role = "weight"
type = "continuous"
bounds = [1.0, 3.0]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    sex, region = rng.choice(["f", "m"], 200), rng.choice(["north", "south"], 200)
    frame = pl.DataFrame({"sex": sex, "region": region, "w": rng.uniform(1, 2, 200)})
    frame.write_parquet(tmp_path / "file.parquet")
    (tmp_path / "codebook.toml").write_text(CODEBOOK)
    (tmp_path / "release.toml").write_text(RECIPE)
    return tmp_path / "release.toml"


def test_after_it_was_read_the_file_is_not_needed(recipe: Path, tmp_path: Path) -> None:
    held = inside.prepare(read_recipe(recipe))
    (tmp_path / "file.parquet").unlink()
    (tmp_path / "codebook.toml").unlink()
    table = confidential_table(held)
    weights = held.whole.frame(["w"])["w"].sum()
    assert table["estimate"].to_list()[-1] == pytest.approx(weights)
    assert held.synthesize(chance_of(None), False).datasets[0].n == 200


def test_one_release_reads_digests_and_tabulates_once(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def count(module: Any, name: str, what: Any) -> None:
        original = getattr(module, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            calls.append(what(*arguments))
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, counted)

    count(inside, "read_survey", lambda path, *_: f"read {Path(path).name}")
    count(inside, "identify", lambda *_: "digest")
    count(check, "tabulate", lambda survey, *_: f"table by {survey.design.weight}")
    count(publish, "run_outside", lambda *_: "public files, in another process")
    us.publish(recipe, tmp_path / "out", say=lambda _: None)
    assert calls == [
        "read file.parquet",
        "digest",
        "table by None",  # the published design differs from the steward's: tried before payment
        "table by w",
        "public files, in another process",
    ]


@contextmanager
def opened(path: Path) -> Iterator[list[int]]:
    """Counts how often a file is opened, by whatever library, as the kernel says (inotify)."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(events, os.fsencode(path), 0x20) >= 0  # IN_OPEN
    times: list[int] = []
    try:
        yield times
        data = os.read(events, 2**16)
    except BlockingIOError:
        data = b""
    finally:
        os.close(events)
    start = 0
    while start < len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, start)
        times.append(mask)
        start += 16 + length


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's count of opened files is Linux's")
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_kernel_sees_the_file_opened_for_its_header_and_its_records(
    recipe: Path, tmp_path: Path, ending: str
) -> None:
    """Version 0.1.0 opened the Parquet file 14 times for this release."""
    pl.read_parquet(tmp_path / "file.parquet").write_csv(tmp_path / "file.csv")
    recipe.write_text(RECIPE.replace("file.parquet", f"file.{ending}"))
    with opened(tmp_path / f"file.{ending}") as times:
        us.publish(recipe, tmp_path / "out", say=lambda _: None)
    assert 1 <= len(times) <= 3
    with opened(tmp_path / f"file.{ending}") as never:
        us.open_release(tmp_path / "out")
    assert not never


def test_the_two_digests_are_of_records_and_of_the_file() -> None:
    first = us.Survey(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    turned = us.Survey(pl.DataFrame({"a": [2, 1], "b": ["y", "x"]}))
    decimals = us.Survey(pl.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    records, ordered = fingerprint.fingerprints(first.raw)
    assert records == fingerprint.fingerprint(first.raw)
    assert fingerprint.fingerprints(turned.raw)[0] == records
    assert fingerprint.fingerprints(turned.raw)[1] != ordered
    assert fingerprint.fingerprints(decimals.raw)[0] == records
    assert fingerprint.fingerprints(decimals.raw)[1] != ordered
