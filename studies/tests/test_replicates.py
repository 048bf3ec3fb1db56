"""Stored replicates: whole or not at all, and never mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

import understudy as us
from understudy_studies.replicates import open_study, run_replicates, stored


def test_only_what_is_missing_is_computed(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute(number: int) -> dict[str, int]:
        calls.append(number)
        return {"square": number**2}

    first = run_replicates(tmp_path / "r", 3, compute, progress=False)
    more = run_replicates(tmp_path / "r", 5, compute, progress=False)
    assert [one["square"] for one in more] == [0, 1, 4, 9, 16]
    assert first == more[:3]
    assert calls == [0, 1, 2, 3, 4]


def test_a_killed_computation_leaves_nothing(tmp_path: Path) -> None:
    def killed() -> dict[str, int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path / "one.json", killed)
    assert list(tmp_path.iterdir()) == []


def test_refusals(tmp_path: Path) -> None:
    open_study(tmp_path, {"seed": 1, "n": 5})
    open_study(tmp_path, {"n": 5, "seed": 1})
    with pytest.raises(us.Refused, match="another `n`"):
        open_study(tmp_path, {"seed": 1, "n": 6})
    with pytest.raises(us.Refused, match="at least 1"):
        run_replicates(tmp_path / "r", 0, lambda _: {}, progress=False)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "0000.json").write_text("{", encoding="utf-8")
    with pytest.raises(us.Refused, match="damaged"):
        run_replicates(tmp_path / "r", 1, lambda _: {}, progress=False)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(us.Refused, match="not a folder"):
        open_study(tmp_path / "file", {})
