"""Stored replicates: whole or not at all, never mixed; and pages from templates."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy_studies.framework import (
    Run,
    Study,
    open_study,
    stored,
    sum_replicates,
    with_error,
)
from understudy_studies.page import grid, render_page

SQUARES = """
import os, uuid

def square(calls, seed, number):
    (calls / f"{number}-{uuid.uuid4()}").touch()
    return {"square": seed * number**2, "process": os.getpid()}
"""


@dataclass(frozen=True)
class Design:
    n: int = 5


def run_of(out: Path, replicates: int, workers: int = 1, design: Any = None) -> Run:
    return Run(out, 1, design, replicates, False, workers, True, {})


@pytest.mark.parametrize("workers", [1, 2])
def test_only_what_is_missing_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    (tmp_path / "squares.py").write_text(SQUARES, encoding="utf-8")  # for processes to import
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "squares", raising=False)
    square = import_module("squares").square
    first = run_of(tmp_path, 3, workers, calls).each("squares", square)
    more = run_of(tmp_path, 5, workers, calls).each("squares", square)
    assert [result["square"] for result in more] == [0, 1, 4, 9, 16]
    assert first == more[:3]
    assert sorted(path.name.split("-")[0] for path in calls.iterdir()) == list("01234")
    alone = {result["process"] for result in more} == {os.getpid()}
    assert alone == (workers == 1)


def test_a_killed_computation_leaves_nothing(tmp_path: Path) -> None:
    def killed() -> dict[str, int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path / "one.json", killed)
    assert list(tmp_path.iterdir()) == []


def test_sums_go_on_where_they_stopped(tmp_path: Path) -> None:
    def compute(number: int) -> np.ndarray:
        computed.append(number)
        return np.random.default_rng(number).normal(size=(2, 3))

    computed: list[int] = []
    whole, _ = sum_replicates(tmp_path / "a.npz", 4, compute, False)
    sum_replicates(tmp_path / "b.npz", 1, compute, False)
    again, used = sum_replicates(tmp_path / "b.npz", 4, compute, False)
    assert computed == [0, 1, 2, 3, 0, 1, 2, 3]
    assert again.tolist() == whole.tolist()
    assert (used, sum_replicates(tmp_path / "b.npz", 2, compute, False)[1]) == (4, 4)
    np.testing.assert_allclose(whole, sum(compute(k) for k in range(4)))


def test_refusals(tmp_path: Path) -> None:
    open_study("mine", tmp_path, 1, {"n": 5})
    open_study("mine", tmp_path, 1, {"n": 5})
    with pytest.raises(us.Refused, match="another `n`"):
        open_study("mine", tmp_path, 1, {"n": 6})
    with pytest.raises(us.Refused, match="another `seed`"):
        open_study("mine", tmp_path, 2, {"n": 5})
    with pytest.raises(us.Refused, match="another `study`"):
        open_study("yours", tmp_path, 1, {"n": 5})
    study = Study("mine", Design(), Design(), 1, 1, lambda _: ({}, {}, {}))
    for replicates in (0, True, 2.0):
        with pytest.raises(us.Refused, match="at least 1"):
            study(replicates, tmp_path / "new")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    (tmp_path / "replicates").mkdir()
    (tmp_path / "replicates" / "0000.json").write_text("{", encoding="utf-8")
    with pytest.raises(us.Refused, match="damaged"):
        run_of(tmp_path, 1).each("mine", lambda *_: {})
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(us.Refused, match="not a folder"):
        open_study("mine", tmp_path / "file", 1, {})


def test_an_error_needs_ten_replicates() -> None:
    assert with_error(0.9512, 0.0041, 10) == "0.951 ± 0.004"
    assert with_error(0.9512, 0.0041, 9) == "0.951"
    assert with_error(0.9512, None, 50, 2) == "0.95"


TEMPLATE = """\
{% macro both() %}{{ table }}{% endmacro %}
# Study of <{{ name }}>

What came out: {{ 0.126|to(".2f") }},
on two lines.

{% for text in more %}
{{ text }}

{% endfor %}

## First

- one with U_m and *stars*
  that goes on
- two

{{ both() }}

::: Folded

{{ [table, table] }}

:::

{% set cells %}
- x is
  {{ name }}
{% for text in more %}
- {{ text }}
{% endfor %}
- y
{% endset %}
{{ cells|word_grid("Words", ["left", "right"]) }}

---
The
footer.
"""


def test_a_template_becomes_a_page(tmp_path: Path) -> None:
    (tmp_path / "page.md.j2").write_text(TEMPLATE, encoding="utf-8")
    frame = pl.DataFrame({"who": ["a", "b"], "value": [0.25, 4.0]})
    columns = [("", "{who}"), ("half", "{value:.2f}"), ("twice", lambda row: f"{2 * row['value']}")]
    table = grid("A table", frame, columns, "table.csv")
    assert table.rows == (("a", "0.25", "0.5"), ("b", "4.00", "8.0"))
    known = {"name": "C", "table": table, "more": ["three", "four"]}
    page = render_page(tmp_path / "page.md.j2", tmp_path / "study.html", known)
    text = re.sub(r">\s+<", "><", page.read_text(encoding="utf-8"))
    assert "<h1>Study of &lt;C&gt;</h1>" in text
    lead = "<p>What came out: 0.13, on two lines.</p><p>three</p><p>four</p>"
    assert f'<section class="summary">{lead}</section>' in text.replace("\n", "")
    assert "<ul><li>one with U_m and *stars* that goes on</li><li>two</li></ul>" in text
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", text.split("</details>")[1])
    assert cells == ["left", "right", "x is C", "three", "four", "y"]
    before, fold = text.split("<details><summary>Folded</summary>")
    assert (before.count("<table"), fold.split("</details>")[0].count("<table")) == (1, 2)
    assert "<p>The footer.</p>" in text


def test_a_template_that_is_wrong_is_not_rendered(tmp_path: Path) -> None:
    path = tmp_path / "page.md.j2"
    path.write_text("# T\n\n## H\n\n::: open\n\nwords\n\n---\nend\n", encoding="utf-8")
    with pytest.raises(ValueError, match="`open` is not closed"):
        render_page(path, tmp_path / "study.html", {})
    path.write_text("# T\n\n{{ missing }}\n\n---\nend\n", encoding="utf-8")
    with pytest.raises(Exception, match="'missing' is undefined"):
        render_page(path, tmp_path / "study.html", {})
