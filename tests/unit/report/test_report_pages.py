"""Both pages: complete, self-contained, in order; and the public one knows no secret."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
import pytest
from release_samples import CODEBOOK, Sample, sample, whole_rows

from understudy.drawing import INTERNAL
from understudy.report.analysis import python_example, r_example, regression
from understudy.report.claim_parts import claim_parts
from understudy.report.internal import internal_page
from understudy.report.numbers import digits, fixed, shown
from understudy.survey.codebook import Column
from understudy.survey.survey import Survey
from understudy.tables.tabulate import tabulate


class Outline(HTMLParser):
    """Headings, images, tables and addresses of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.scopes: list[str | None] = []
        self.count: dict[str, int] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.count[tag] = self.count.get(tag, 0) + 1
        if re.fullmatch(r"h\d", tag):
            self.levels.append(int(tag[1]))
        if tag == "img":
            self.images.append(attributes)
        if tag == "th":
            self.scopes.append(attributes.get("scope"))
        self.addresses += [str(attributes[key]) for key in ("src", "href") if key in attributes]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    of = sample()
    lonely = sample(m=1, bounds=None, chains=None, risk=None, regression=None)
    rows = whole_rows()
    return {
        "internal": internal_page(json.loads(json.dumps(of.evidence()))),
        "internal, one file": internal_page(lonely.evidence()),
        "internal, whole rows": internal_page(rows.evidence()),
        "public": of.public(),
        "public, one file": lonely.public(),
        "public, whole rows": rows.public(),
    }


def test_pages_are_self_contained_and_well_formed(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        outline = Outline(page)
        assert (outline.levels[0], *set(outline.levels[1:])) == (1, 2), name
        assert outline.images, name
        assert all(image["alt"] for image in outline.images), name
        assert outline.count["table"] == outline.count["caption"], name
        assert set(outline.scopes) <= {"row", "col"}, name
        for address in outline.addresses:
            assert address.startswith("data:image/svg") or "/" not in address, address
        assert "script" not in outline.count
        assert "link" not in outline.count
        assert not re.search(r"\d{4}-\d\d-\d\d", page)
        assert "@media print" in page
        assert "prefers-color-scheme:dark" in page


def test_pictures_have_no_date_and_the_same_bytes(pages: dict[str, str]) -> None:
    assert pages["internal"] == internal_page(sample().evidence())
    for image in Outline(pages["internal"]).images:
        svg = base64.b64decode(str(image["src"]).split(",", 1)[1]).decode("utf-8")
        assert "<dc:date>" not in svg
        assert not re.search(r"(href|src)=\"http", svg)


def test_internal_page_is_marked_and_public_is_not(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert (INTERNAL in page) == name.startswith("internal"), name
    assert pages["internal"].index(INTERNAL) < pages["internal"].index("<h1>")


def test_internal_page_shows_the_numbers_of_the_evidence(pages: dict[str, str]) -> None:
    evidence, page = sample().evidence(), pages["internal"]
    for sentence in evidence["summary"]:
        assert re.sub(r"`([^`]+)`", r"<code>\1</code>", sentence) in page
    for cell in evidence["table"]["cells"]:
        for side in (cell["confidential"], cell["released"]):
            estimate, se = shown(side["estimate"], side["se"]), shown(side["se"], side["se"])
            assert f">{estimate} ({se})</td>" in page
    assert fixed(evidence["utility"]["columns"][0]["U_m"], 4) in page
    assert digits(evidence["records"]["bounds"]["before"]["largest"]) in page


def test_claim_stands_in_full_with_its_conditions_as_a_list(pages: dict[str, str]) -> None:
    of = sample()
    fields = json.loads(of.claim.to_json())
    parts = claim_parts(str(of.claim), of.claim.conditions, fields)
    said = " ".join([parts.opening, "Conditions:", *parts.conditions, parts.closing])
    without_numbers = re.sub(r"\(\d\) ", "", str(of.claim))
    assert said == without_numbers
    assert len(parts.conditions) == 2
    none = replace(of.claim, conditions=())
    bare = claim_parts(str(none), (), fields)
    assert f"{bare.opening} {bare.closing}" == str(none)
    assert bare.conditions == ()
    for page in (pages["internal"], pages["public"]):
        assert "<li>The seed is kept secret.</li>" in page


def test_public_page_says_how_to_analyse(pages: dict[str, str]) -> None:
    assert "ubar + b / m" in pages["public"]
    assert "All values were drawn from a model" in pages["public, whole rows"]
    assert "the other columns are as collected" in pages["public"]
    assert "too small" in pages["public, one file"]
    assert "open_release(&#34;.&#34;)" in pages["public"]
    assert "svydesign(ids = ~1, strata = ~field" in pages["public"]
    of = sample()
    row = of.released_table.row(0, named=True)
    assert f">{shown(row['estimate'], row['se'])}</td>" in pages["public"]


def test_canaries_stay_inside() -> None:
    """A salary, a level nobody declared, bounds, weights and diagnostics."""
    secret, level = 123456.789, "Level-seen-once"
    of = sample()
    ours = of.confidential.frame().with_columns(
        pl.when(pl.int_range(pl.len()) == 0).then(secret).otherwise("salary").alias("salary")
    )
    with_level = ours.with_columns(pl.lit(level).alias("note"))
    column = Column(
        "note", "sensitive", "categorical", levels=(level,), drafted=frozenset({"levels"})
    )
    salary = replace(CODEBOOK["salary"], bounds=(1.0, secret), drafted=frozenset({"bounds"}))
    hidden = Survey(with_level, of.confidential.design, CODEBOOK.with_column(column))
    assert of.bounds is not None
    assert of.chains is not None
    loud = replace(
        of,
        confidential=hidden,
        confidential_table=tabulate(hidden, of.statistics, of.by, margins=True),
        bounds=replace(of.bounds, limit=0.31337),
        chains=replace(of.chains, rhat=np.full(3, 1.0057), divergences=16180),
    )
    evidence = loud.evidence()
    inside = internal_page(evidence)
    # the codebook of a careless publisher: drafted facts of the confidential file are still in it
    careless = CODEBOOK.with_column(column).with_column(salary)
    public = loud.public(codebook=careless)
    kept = {shown(row["estimate"], row["se"]) for row in loud.released_table.iter_rows(named=True)}
    canaries = [level, "123456.789", "123,456.789", "123,457", "0.31337", "1.0057", "16180"]
    canaries += ["16,180", "identification risk</h2>", INTERNAL]
    for cell in evidence["table"]["cells"]:
        side = cell["confidential"]
        canaries += {shown(side["estimate"], side["se"])} - kept
        canaries.append(repr(side["estimate"]))
    for canary in canaries:
        assert canary not in public, canary
    assert "1.0057" in inside
    assert "0.313" in inside


def test_examples_follow_the_facts() -> None:
    of = sample()
    text = python_example(of.facts())
    compile(text, "example", "exec")
    assert 'us.tabulate(release, ["count", "mean(salary)"], by=["field", "gender"])' in text
    assert 'us.regress(release, "log(salary) ~ C(field) + C(gender)")' in text
    for formats, call in (
        (["csv"], "read.csv(file"),
        (["dta"], "haven::read_dta(file)"),
        (["sav"], "haven::read_sav(file)"),
        (["sav", "csv"], "read.csv(file"),
        ([], "arrow::read_parquet(file)"),
    ):
        assert call in r_example(of.facts(asked_formats=tuple(formats)), 3)


def test_a_release_of_categories_has_no_regression() -> None:
    names = ("field", "gender")
    only = whole_rows().facts(codebook=CODEBOOK.only(names), synthesized=names)
    assert regression(only) is None
    assert "regress" not in python_example(only)


def test_long_tables_are_drawn_in_part() -> None:
    of = many_cells()
    page = internal_page(of.evidence())
    assert "those that differ most" in page
    assert "the first 40 of" in of.public()


def many_cells() -> Sample:
    of = sample(risk=None, regression=None)
    surveys: list[Any] = []
    book = CODEBOOK.with_column(Column("area", "public", "categorical"))
    for survey in (of.confidential, *of.datasets):
        frame = survey.frame().with_columns(
            (pl.int_range(pl.len()) % 70).cast(pl.String).alias("area")
        )
        surveys.append(Survey(frame, replace(survey.design, strata=None), book))
    return replace(
        of,
        confidential=surveys[0],
        datasets=surveys[1:],
        by=("area",),
        confidential_table=tabulate(surveys[0], of.statistics, "area"),
        released_table=tabulate(surveys[1:], of.statistics, "area", combine="partial"),
    )
