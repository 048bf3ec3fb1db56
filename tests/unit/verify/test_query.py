"""A query is checked whole, by the codebook alone, and has one canonical form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column
from understudy.verify.catalogue import packaged, read_query
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.query import check_query, scale_mistakes

BOOK = Codebook(
    {
        c.name: c
        for c in (
            Column("income", "sensitive", "continuous"),
            Column("hours", "sensitive", "integer"),
            Column("region", "public", "categorical", levels=("North", "South", "East")),
            Column("sex", "public", "categorical", levels=(1, 2)),
            Column(
                "field", "public", "categorical", levels=("a", "b"), drafted=frozenset({"levels"})
            ),
            Column("note", "sensitive", "text"),
            Column("age", "sensitive", "integer", drafted=frozenset({"type"})),
            Column("person", "unit", "integer"),
        )
    }
)


def ask(**changes: Any) -> dict[str, Any]:
    base = {
        "dataset": "sdr",
        "estimator": "mean",
        "variable": "income",
        "tolerance": {"value": 2.0},
        "epsilon": "1",
        "estimate": 100.0,
        "se": 2.0,
    }
    return {name: value for name, value in {**base, **changes}.items() if value is not ...}


REGRESSION = {"predictors": ["hours", "region"], "coefficient": "hours"}

GOOD = [
    {},
    {"estimator": "total", "measure": "agreement", "noise": "laplace"},
    {"estimator": "proportion", "variable": "region", "level": "South"},
    {"estimator": "proportion", "variable": "sex", "level": 2},
    {"estimator": "ratio", "denominator": "hours"},
    {"estimator": "quantile", "probability": 0.5},
    {"estimator": "difference", "domain": {"sex": [1]}, "versus": {"sex": [2]}},
    {"estimator": "linear", **REGRESSION},
    {
        "estimator": "logistic",
        "variable": "sex",
        "level": 1,
        "predictors": ["region"],
        "coefficient": "region",
        "coefficient_level": "East",
    },
    {"estimate": None, "se": None},
    {"measure": "agreement", "tolerance": {"kind": "percent", "value": 5.0}, "se": None},
    {"estimate": 100, "se": 2},
]


@pytest.mark.parametrize("changes", GOOD)
def test_a_good_query_passes_as_mapping_and_as_text(changes: dict[str, Any]) -> None:
    query = read_query(ask(**changes))
    check_query(query, BOOK)
    assert read_query(json.dumps(ask(**changes))) == query
    assert read_query(query.model_dump(mode="json")) == query


def test_a_domain_may_be_one_of_another_question() -> None:
    query = read_query(ask(domain={"sex": [2], "region": ["South"]}))
    assert read_query(ask(domain=query.domain)) == query


BAD = [
    ({"variable": "incme"}, "variable", "did you mean `income`"),
    ({"variable": "region"}, "variable", "not a number"),
    ({"variable": "age"}, "variable", "only drafted"),
    ({"variable": "note"}, "variable", "not a number"),
    ({"variable": "person"}, "variable", "not a number"),
    ({"estimator": "maen"}, "estimator", "must be"),
    ({"estimator": "proportion", "variable": "region", "level": "Soth"}, "level", "`South`"),
    ({"estimator": "proportion", "variable": "region"}, "level", "needs `level`"),
    ({"estimator": "proportion", "variable": "field", "level": "a"}, "variable", "no levels"),
    ({"estimator": "ratio"}, "denominator", "needs"),
    ({"denominator": "hours"}, "denominator", "leave it out"),
    ({"estimator": "quantile", "probability": 1.0}, "probability", "less than 1"),
    ({"estimator": "difference", "domain": {"sex": [1]}}, "versus", "needs"),
    ({"domain": {"sex": [3]}}, "domain", "level of `sex`"),
    ({"domain": {"sex": [True]}}, "domain", "level of `sex`"),
    ({"domain": {"income": [3]}}, "domain", "no levels"),
    ({"domain": {"sx": [1]}}, "domain", "did you mean `sex`"),
    ({"domain": [{"column": "sex", "levels": [1]}] * 2}, "domain", "twice"),
    ({"estimator": "linear", "predictors": ["hours"]}, "coefficient", "name it"),
    ({"estimator": "linear", **REGRESSION, "coefficient": "sex"}, "coefficient", "predictor"),
    (
        {"estimator": "linear", **REGRESSION, "coefficient": "region"},
        "coefficient_level",
        "needs `coefficient_level`",
    ),
    (
        {
            "estimator": "linear",
            **REGRESSION,
            "coefficient": "region",
            "coefficient_level": "North",
        },
        "coefficient_level",
        "reference level",
    ),
    (
        {"estimator": "linear", **REGRESSION, "coefficient_level": "East"},
        "coefficient_level",
        "`hours` takes no",
    ),
    ({"estimator": "linear", **REGRESSION, "variable": "hours"}, "predictors", "differ"),
    ({"se": ...}, "se", "standard error"),
    ({"se": ..., "tolerance": {"kind": "percent", "value": 5.0}}, "se", "standard error"),
    ({"se": ..., "measure": "agreement"}, "se", "standard error"),
    ({"estimate": ...}, "estimate", "beside"),
    ({"se": 0.0}, "se", "greater than 0"),
    ({"se": float("nan")}, "se", "finite"),
    ({"estimate": float("inf")}, "estimate", "finite"),
    ({"estimate": "100"}, "estimate", "number"),
    ({"tolerance": {"value": 15.0}}, "tolerance", "wider than the range"),
    ({"tolerance": {"kind": "percent", "value": 5.0}, "estimate": 0.0}, "tolerance", "zero width"),
    ({"tolerance": {"value": -1.0}}, "tolerance.value", "greater than 0"),
    ({"tolerance": {"value": 1.0, "kinds": "se"}}, "tolerance.kinds", "did you mean `kind`"),
    ({"toleranse": 1}, "toleranse", "did you mean `tolerance`"),
    ({"dataset": ...}, "dataset", "missing"),
    ({"level": {"a": 1}}, "level", "must be text, a number"),
    ({"partitions": 1}, "partitions", "greater than or equal to 2"),
    ({"partitions": 25.0}, "partitions", "whole number"),
    ({"partitions": True}, "partitions", "whole number"),
    ({"partitions": 10**30}, "partitions", "less than or equal"),
    ({"epsilon": 1.0}, "epsilon", "must be text"),
    ({"epsilon": "nan"}, "epsilon", "plain decimal"),
    ({"epsilon": "-0"}, "epsilon", "plain decimal"),
    ({"epsilon": "1e400"}, "epsilon", "plain decimal"),
    ({"noise": "laplace"}, "noise", "agreement"),
]


@pytest.mark.parametrize(("changes", "field", "words"), BAD)
def test_a_mistake_is_named_with_its_field(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidQuery) as refused:
        check_query(read_query(ask(**changes)), BOOK)
    messages = {m.field: m.message for m in refused.value.mistakes}
    assert field in messages, messages
    assert words in messages[field]


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(InvalidQuery) as refused:
        check_query(read_query(ask(variable="incme", domain={"sx": [1]}, noise="laplace")), BOOK)
    assert {m.field for m in refused.value.mistakes} == {"variable", "domain", "noise"}
    assert str(refused.value) == " ".join(m.message for m in refused.value.mistakes)


def test_equal_questions_have_one_form() -> None:
    domain = {"region": ["South", "North"], "sex": [1]}
    other = [
        {"column": "sex", "levels": [1]},
        {"column": "region", "levels": ["North", "South", "North"]},
    ]
    first = read_query(ask(domain=domain, epsilon="1.0"))
    two = read_query(ask(domain=other, epsilon="1", partitions=50, estimate=100))
    assert first.digest() == two.digest()


@pytest.mark.parametrize(("measure", "same"), [("discrepancy", True), ("agreement", False)])
def test_the_kind_of_interval_tells_questions_apart_where_it_matters(
    measure: str, same: bool
) -> None:
    first, two = (
        read_query(ask(measure=measure, tolerance={"value": 2.0, "interval": interval}))
        for interval in ("fixed", "adjusted")
    )
    assert (first.digest() == two.digest()) is same


def test_percent_of_a_negative_estimate_has_a_width() -> None:
    query = read_query(ask(tolerance={"kind": "percent", "value": 5.0}))
    assert query.terms(-100.0, 2.0).tolerance == 5.0


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": "0.999999"},
        {"estimate": 100.0000001},
        {"domain": {"sex": [1]}},
        {"partitions": 51},
        {"dataset": "sdr2"},
        {"tolerance": {"value": 2.0, "kind": "percent"}},
        {"clip": 3.0},
        {"measure": "agreement"},
    ],
)
def test_different_questions_differ(change: dict[str, Any]) -> None:
    assert read_query(ask()).digest() != read_query(ask(**change)).digest()


def test_number_and_text_levels_do_not_meet() -> None:
    first, two = (read_query(ask(domain={"sex": [v]})) for v in (1, "1"))
    assert first.digest() != two.digest()


def test_a_query_is_frozen() -> None:
    query = read_query(ask())
    with pytest.raises(ValueError, match="frozen"):
        query.epsilon = "2"  # type: ignore[misc]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(packaged().query_type.model_fields)), JSON)
def test_any_value_in_any_field_is_a_query_or_a_refusal(field: str, value: Any) -> None:
    reply = ""
    try:
        query = read_query(ask(**{field: value}))
        check_query(query, BOOK)
        reply = query.digest()
    except Refused as refusal:
        reply = str(refusal)
    assert reply


@pytest.mark.parametrize(
    "payload",
    [
        "__import__('os').system('id')",
        "income; DROP TABLE entries",
        "${jndi:ldap://x}",
        "{{7*7}}",
        "I(income**2)",
        "../../etc/passwd",
        "income\x00",
        "\ud800",
        "a" * 100_000,
    ],
)
@pytest.mark.parametrize("field", ["variable", "coefficient", "denominator"])
def test_code_in_a_name_is_only_an_unknown_name(payload: str, field: str) -> None:
    with pytest.raises(InvalidQuery):
        check_query(read_query(ask(estimator="linear", **REGRESSION) | {field: payload}), BOOK)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"epsilon": 1e400}', b"\xff", "[" * 5000])
def test_texts_that_are_no_query(text: str | bytes) -> None:
    with pytest.raises(InvalidQuery):
        read_query(text)


def test_a_measure_of_steps_needs_the_synthetic_standard_error() -> None:
    """Where the server computes the estimate, it may have no standard error beside it."""
    for measure, mistakes in (("discrepancy", ["se"]), ("agreement", [])):
        query = read_query(ask(measure=measure, tolerance={"kind": "percent", "value": 5.0}))
        assert [mistake.field for mistake in scale_mistakes(query, 120.0, None)] == mistakes
        assert scale_mistakes(query, 120.0, 1.0) == []


def test_the_numeric_columns_are_named() -> None:
    with pytest.raises(InvalidQuery, match="the numeric columns are `income`, `hours`"):
        check_query(read_query(ask(variable="region")), BOOK)
