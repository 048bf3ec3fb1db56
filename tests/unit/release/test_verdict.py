"""A red verdict stops a release that has thresholds, until someone says why it is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from understudy.errors import Refused
from understudy.release.verdict import check_verdict


def evidence(folder: Path, colour: str) -> Path:
    document = {"fitness": {"verdict": colour}, "summary": [f"Verdict: {colour}."]}
    (folder / "evidence.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def test_red_needs_a_reason_where_the_recipe_has_thresholds(tmp_path: Path) -> None:
    red = evidence(tmp_path, "red")
    with pytest.raises(Refused, match="--accept"):
        check_verdict(red, " ", binding=True)
    reason = "A teaching file."
    assert check_verdict(red, reason, binding=True) == {"verdict": "red", "accepted": reason}
    assert check_verdict(red, "", binding=False) == {"verdict": "red", "accepted": ""}


@pytest.mark.parametrize("colour", ["green", "amber"])
def test_other_colours_need_none_and_keep_none(tmp_path: Path, colour: str) -> None:
    verdict = check_verdict(evidence(tmp_path, colour), "why not", binding=True)
    assert verdict == {"verdict": colour, "accepted": ""}
