"""The proofs cite files and names that exist, and numbers that the code still gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from understudy.audit.attack import attacks
from understudy.audit.epsilon_bound import exact_epsilon
from understudy.audit.problems import grid_neighbours

ROOT = Path(__file__).resolve().parents[3]
PROOFS = {
    path.name: path.read_text(encoding="utf-8")
    for path in [
        ROOT / "docs/proofs/censoring.md",
        ROOT / "docs/proofs/reference-censoring.md",
        ROOT / "docs/proofs/perturbed-histogram.md",
        ROOT / "docs/proofs/noisy-moments.md",
        ROOT / "docs/proofs/diagnostics.md",
        ROOT / "docs/known-limits.md",
    ]
}
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("src/understudy/**/*.py"))


@pytest.mark.parametrize("name", PROOFS)
def test_cited_files_exist(name):
    cited = re.findall(r"`((?:src|docs)/[\w/.-]+)`", PROOFS[name])
    assert cited
    assert [path for path in cited if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["censoring.md", "reference-censoring.md"])
def test_cited_mutants_exist(name):
    for mutant in re.findall(r"mutant\s+`([\w-]+)`", PROOFS[name]):
        assert f'"{mutant}"' in SOURCE


@pytest.mark.parametrize("name", PROOFS)
def test_cited_functions_exist(name):
    for function in re.findall(r"`(?:\w+\.)?([a-z]+_[a-z_]+)(?:\(.*?\))?`", PROOFS[name]):
        assert f"def {function}(" in SOURCE, function


@pytest.mark.parametrize(
    ("name", "text", "arguments"),
    [
        ("censoring.md", ".970 and 1.94", ("censored", 1.0, "blank")),
        ("censoring.md", "loses 15.4 at", ("censored-weighted", 1.0, "blank", "weights-from-data")),
        (
            "reference-censoring.md",
            "loses 7.4 under",
            ("reference-censored", 1.0, "blank", "reference-from-data"),
        ),
    ],
)
def test_cited_losses_are_what_the_code_gives(name, text, arguments):
    assert text in PROOFS[name]
    pairs = grid_neighbours(attacks()[arguments[0]], *arguments[1:])
    loss = max(exact_epsilon(*pair.log_posteriors()) for pair in pairs)
    first = re.search(r"\d*\.\d+", text)
    assert loss == pytest.approx(float(first.group()), rel=0.006)
