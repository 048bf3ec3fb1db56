"""The confidential file is read once, and each table is computed once."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.ledger import fingerprint
from understudy.release import inside, publish
from understudy.release.recipe import read_recipe
from understudy.survey import read

pytestmark = pytest.mark.usefixtures("outside_here")

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
    table = held.confidential_table
    weights = held.whole.frame(["w"])["w"].sum()
    assert table["estimate"].to_list()[-1] == pytest.approx(weights)
    assert held.synthesize(chance_of(None), False).datasets[0].n == 200


def test_a_folder_of_parquet_files_is_released_as_the_file_that_it_holds(
    recipe: Path, tmp_path: Path
) -> None:
    """The same records in folders by region: the same identity for the ledger, the same table."""
    whole = inside.prepare(read_recipe(recipe))
    frame = pl.read_parquet(tmp_path / "file.parquet")
    frame.write_parquet(tmp_path / "parts", partition_by=["region"], mkdir=True)
    recipe.write_text(RECIPE.replace("file.parquet", "parts"))
    parts = inside.prepare(read_recipe(recipe))
    assert parts.file == whole.file
    keys = ("sex", "estimate", "se")
    table, expected = (held.confidential_table.sort("sex").select(keys) for held in (parts, whole))
    assert table["sex"].to_list() == expected["sex"].to_list()
    for name in keys[1:]:
        assert table[name].to_list() == pytest.approx(expected[name].to_list(), rel=1e-12)
    shutil.rmtree(tmp_path / "parts")  # it is not read again
    assert parts.synthesize(chance_of(None), False).datasets[0].n == 200


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
    count(inside, "tabulate", lambda survey, *_: f"table by {survey.design.weight}")
    count(publish, "run_outside", lambda *_: "public files")
    us.publish(recipe, tmp_path / "out", say=lambda _: None, accept="reading is tested")
    assert calls == ["read file.parquet", "digest", "table by w", "public files"]


@contextmanager
def events_of(path: Path) -> Iterator[list[str]]:
    """How a file is opened and closed, by whatever library, as the kernel says (inotify).

    It tells a run of the same event once, so that two opens without a close between them would
    look like one: the other test takes the file away after the first.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    queue = libc.inotify_init1(os.O_NONBLOCK)
    names = {0x20: "open", 0x10: "close"}
    assert libc.inotify_add_watch(queue, os.fsencode(path), sum(names)) >= 0
    events: list[str] = []
    try:
        yield events
        data = os.read(queue, 2**16)
    except BlockingIOError:
        data = b""
    finally:
        os.close(queue)
    start = 0
    while start < len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, start)
        events.append(names[mask])
        start += 16 + length


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's count of opened files is Linux's")
@pytest.mark.parametrize("ending", ["parquet", "csv", "dta"])
def test_the_kernel_sees_the_file_opened_once(
    recipe: Path, tmp_path: Path, ending: str, request: pytest.FixtureRequest
) -> None:
    if ending == "parquet":  # the process that makes the public files is watched as well
        request.getfixturevalue("outside_apart")
    file = as_format(recipe, ending)
    with events_of(file) as events:
        us.publish(recipe, tmp_path / "out", say=lambda _: None, accept="reading is tested")
    assert events == ["open", "close"]
    with events_of(file) as never:
        us.open_release(tmp_path / "out")
    assert never == []


@pytest.mark.parametrize("ending", ["parquet", "csv", "dta"])
def test_a_file_that_is_gone_after_it_was_opened_once(
    recipe: Path, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = as_format(recipe, ending)
    original = read.private_copy

    def copied(path: Path, companions: Sequence[Path]) -> Path:
        copy = original(path, companions)
        path.unlink()
        return copy

    monkeypatch.setattr(read, "private_copy", copied)
    us.publish(recipe, tmp_path / "out", say=lambda _: None, accept="reading is tested")
    assert not file.exists()
    assert us.open_release(tmp_path / "out")[0].n == 200


def as_format(recipe: Path, ending: str) -> Path:
    """The recipe's file in another format."""
    file = recipe.with_name(f"file.{ending}")
    if ending != "parquet":
        us.write_survey(us.read_survey(recipe.with_name("file.parquet")), file)
        recipe.write_text(RECIPE.replace("file.parquet", file.name))
    return file


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
