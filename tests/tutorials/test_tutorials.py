"""The tutorials run as they are printed: their Python blocks, in order, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sd2011 import put_sd2011
from understudy.release import outside, publish

TUTORIALS = sorted((Path(__file__).resolve().parents[2] / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(tutorial: Path) -> dict[str, Any]:
    """All blocks of a tutorial in one namespace; a failure points at the line in the page."""
    text = tutorial.read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": tutorial.stem}
    for block in BLOCK.finditer(text):
        above = text[: block.start(1)].count("\n")
        code = compile("\n" * above + block.group(1), str(tutorial), "exec")
        exec(code, namespace)
    return namespace


def test_there_are_tutorials() -> None:
    assert TUTORIALS


@pytest.mark.usefixtures("stand_in_seed", "stand_in_answers", "stand_in_keys", "stand_in_noise")
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(
    tutorial: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # quicker: public files in this process, and whole files from pools of fewer cells
    monkeypatch.setattr(publish, "run_outside", outside.make_public)
    monkeypatch.setattr("understudy.mechanisms.whole_file.fit.POOL", 20_000)
    monkeypatch.setattr("understudy.mechanisms.whole_file.measure.SMALL_POOL", 10_000)
    if "SD2011.csv" in tutorial.read_text(encoding="utf-8"):
        put_sd2011(tmp_path)
    namespace = run(tutorial)
    assert len(namespace) > 2, "the tutorial has no Python block"
    assert capsys.readouterr().out.strip(), "the tutorial shows nothing"
    check = globals().get("check_" + tutorial.stem.replace("-", "_"))
    if check is not None:
        check(namespace)


def check_periodic_releases(made: dict[str, Any]) -> None:
    """What the page says: January asymptotic, later months formal, and the file by a reference near
    (nearer than the others is so for most draws, and is what C's study compares)."""
    assert made["first"].claim.kind == "asymptotic"
    for release in made["releases"].values():
        assert release.claim.kind == "formal"
        assert release.claim.epsilon == 4
        assert any("fixed on another file" in condition for condition in release.claim.conditions)
        assert release.bounds.overall <= 2
    assert made["release"].claim.epsilon == 1
    assert made["gap_at_1"] < 0.1  # .01 to .04 as far as seen


def check_whole_file(made: dict[str, Any]) -> None:
    """What the page says of the draft, of the claim, of the verdict, and of further records."""
    assert made["draft"]["income"].missing == made["draft"]["nociga"].missing == (-8,)
    assert "which is not declared" in made["refused"]
    assert (made["result"].claim.kind, made["result"].claim.epsilon) == ("formal", 3)
    assert made["evidence"]["fitness"]["verdict"] in ("green", "amber")
    assert all((file.frame()["age"] > 64).all() for file in made["older"])
