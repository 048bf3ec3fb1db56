"""A claim says no more than is proved: validation, composition, words, JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.claim import Claim, several
from understudy.errors import Refused

epsilons = st.decimals("0.001", "50", places=3).map(float)


@pytest.mark.parametrize(
    "epsilon", [0, -1, math.nan, math.inf, -math.inf, "1", True, None, [1.0], 10**400]
)
def test_an_impossible_epsilon_is_refused(epsilon):
    with pytest.raises(Refused, match="epsilon"):
        Claim("formal", epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf, "0", True])
def test_an_impossible_delta_is_refused(delta):
    with pytest.raises(Refused, match="delta"):
        Claim("formal", 1.0, delta=delta)


def test_only_risk_has_no_epsilon():
    assert Claim("risk", None).epsilon is None
    for wrong in ({"epsilon": 1.0}, {"epsilon": None, "delta": 0.1}):
        with pytest.raises(Refused, match="risk"):
            Claim("risk", **wrong)
    with pytest.raises(Refused, match="only `risk` has none"):
        Claim("formal", None)


def test_the_mechanism_is_a_text():
    with pytest.raises(Refused, match="mechanism"):
        Claim("formal", 1.0, mechanism=3)


def test_unknown_kind_and_relation_offer_the_nearest():
    with pytest.raises(Refused, match="formal"):
        Claim("formall", 1.0)
    with pytest.raises(Refused, match="replace"):
        Claim("formal", 1.0, relation="replaced")


@pytest.mark.parametrize("conditions", ["the draw is exact", (1,), (" ",), 3])
def test_conditions_are_sentences(conditions):
    with pytest.raises(Refused, match="condition"):
        Claim("formal", 1.0, conditions=conditions)


def test_a_claim_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Claim("formal", 1.0).epsilon = 0.1


def test_numpy_numbers_and_lists_are_taken_in():
    claim = Claim("formal", np.float64(0.5), conditions=["a"])
    assert type(claim.epsilon) is float
    assert claim == Claim("formal", 0.5, conditions=("a",))
    assert hash(claim) == hash(Claim("formal", 0.5, conditions=("a",)))


def test_blank_carries_the_doubled_figure_for_replace():
    assert Claim("formal", 0.1).epsilon_replace == 0.2
    assert Claim("asymptotic", 10.8).epsilon_replace == 21.6
    assert Claim("formal", 1.0, epsilon_replace=1.5).epsilon_replace == 1.5


@pytest.mark.parametrize(
    "claim",
    [
        Claim("local", 1.0),
        Claim("formal", 1.0, relation="replace"),
        Claim("formal", 1.0, relation="add-remove"),
        Claim("formal", 1.0, delta=1e-6),
    ],
)
def test_no_figure_for_replace_is_made_up(claim):
    assert claim.epsilon_replace is None
    with pytest.raises(Refused, match="epsilon_replace"):
        dataclasses.replace(claim, epsilon_replace=2.0)


def test_a_figure_for_replace_above_the_proved_one_is_refused():
    with pytest.raises(Refused, match="twice"):
        Claim("formal", 1.0, epsilon_replace=2.1)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(epsilons, min_size=1, max_size=30))
def test_epsilons_add_as_exact_decimals(parts):
    whole = Claim.compose([Claim("formal", part) for part in parts])
    exact = sum(Fraction(repr(part)) for part in parts)
    assert whole.epsilon == float(exact)
    assert whole.epsilon_replace == float(2 * exact)


def test_ten_releases_at_a_tenth_make_one():
    assert sum([0.1] * 10) != 1.0  # what floats would say
    assert Claim("formal", 0.1).scaled(10).epsilon == 1.0
    assert Claim("formal", 0.1, delta=0.1).scaled(3).delta == 0.3


@settings(deadline=None)  # the machine may be busy
@given(st.permutations(["formal", "asymptotic", "local"]))
def test_the_weakest_kind_wins_in_any_order(kinds):
    assert Claim.compose([Claim(kind, 1.0) for kind in kinds]).kind == "local"
    assert Claim.compose([Claim(kind, 1.0) for kind in kinds if kind != "local"]).kind == (
        "asymptotic"
    )


def test_a_part_without_epsilon_leaves_the_whole_without():
    whole = Claim.compose([Claim("formal", 1.0, mechanism="A"), Claim("risk", None, mechanism="B")])
    assert (whole.kind, whole.epsilon, whole.mechanism) == ("risk", None, "A + B")


def test_claims_together_protect_the_smallest_of_their_units():
    record, household, firm = (
        Claim("formal", 1.0, unit=unit) for unit in ("record", "household", "firm")
    )
    assert Claim.compose([household, household]).unit == "household"
    assert Claim.compose([household, record]).unit == "record"
    assert Claim.compose([record, firm, household]).unit == "record"
    with pytest.raises(Refused, match="`firm` and `household`, do not add up"):
        Claim.compose([firm, household])
    with pytest.raises(Refused, match="`a` and `b` and `c` and `d` and `e` and `f` and `g`,"):
        Claim.compose([Claim("formal", 1.0, unit=unit) for unit in "gcafdbe"])
    for unit in ("", None):
        with pytest.raises(Refused, match="unit of a claim"):
            Claim("formal", 1.0, unit=unit)


def test_conditions_are_united_once_each():
    whole = Claim.compose(
        [Claim("formal", 1, conditions=("a", "b")), Claim("formal", 1, conditions=("b", "c"))]
    )
    assert whole.conditions == ("a", "b", "c")


def test_composition_stands_beside_brute_force_group_privacy():
    """blank -> replace: three output distributions, x to blank to y, worst ratio by hand."""
    epsilon, delta = 0.7, 0.01
    keep = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    x = np.array([keep, 1 - delta - keep, delta, 0.0])  # randomised response that fails openly
    blank = np.array([1 - delta - keep, keep, 0.0, delta])
    moved = Claim("formal", epsilon, delta=delta).under_replace()
    for cost in (epsilon, moved.epsilon):
        assert np.maximum(x - math.exp(cost) * blank, 0).sum() <= delta + 1e-12
    # The tight chain: P(S) = e^eps (e^eps q + delta) + delta is allowed, and nothing above it.
    q = 0.05
    allowed = math.exp(epsilon) * (math.exp(epsilon) * q + delta) + delta
    assert math.exp(moved.epsilon) * q + moved.delta == pytest.approx(allowed)
    assert moved.delta >= (1 + math.exp(epsilon)) * delta


def test_mixed_relations_are_brought_to_replace():
    whole = Claim.compose(
        [
            Claim("formal", 0.5),
            Claim("formal", 0.25, relation="replace"),
            Claim("formal", 0.1, relation="add-remove"),
        ]
    )
    assert (whole.relation, whole.epsilon, whole.epsilon_replace) == ("replace", 1.45, None)


def test_a_smaller_proved_figure_is_used_when_converting():
    claim = Claim("formal", 1.0, epsilon_replace=1.25)
    assert claim.under_replace().epsilon == 1.25


def test_a_smaller_proved_figure_is_kept_by_composition():
    claim = Claim("formal", 1.0, epsilon_replace=1.25)
    assert claim.scaled(2) == Claim("formal", 2.0, epsilon_replace=2.5)
    mixed = Claim.compose([claim, Claim("asymptotic", 1.0)])
    assert mixed == Claim("asymptotic", 2.0, epsilon_replace=3.25)


def test_one_release_is_the_claim_itself():
    claim = Claim("formal", 0.3, conditions=("a", "a"), mechanism="Censored")
    assert claim.scaled(1) == claim
    assert Claim.compose([claim]) == claim


def test_a_delta_that_cannot_be_doubled_stays_below_one():
    """(1 + e^epsilon) delta is above 1 here, and e^1000 is no double: the weakest true delta."""
    moved = Claim("formal", 1000.0, delta=1e-9).under_replace()
    assert (moved.epsilon, moved.delta) == (2000.0, 1.0 - 2.0**-53)


def test_what_is_not_proved_is_refused():
    with pytest.raises(Refused, match="local"):
        Claim.compose([Claim("local", 1.0), Claim("formal", 1.0, relation="replace")])
    with pytest.raises(Refused, match="compose"):
        Claim.compose([])
    with pytest.raises(Refused, match="delta"):
        Claim("formal", 1.0, delta=0.4).scaled(3)
    for times in (0, -1, 1.5, True):
        with pytest.raises(Refused, match="whole number"):
            Claim("formal", 1.0).scaled(times)


def test_the_paragraph_says_all_five_things():
    text = str(
        Claim(
            "formal",
            3,
            mechanism="Censored",
            conditions=("The posterior draw is exact.", "salary is in units of 1000"),
        )
    )
    assert "\n" not in text
    for part in (
        "confidential values of any one record",  # what
        "blanked",  # against what
        "any other values",
        "epsilon = 3 under",  # which number
        "epsilon = 6 under",
        "at most 20.1",  # e^3 = 20.086, rounded up
        "404",  # e^6 = 403.4, rounded up
        "(1) The posterior draw is exact. (2) salary is in units of 1000.",  # conditions
        "Not claimed",
        "k records needs k times",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("claim", "must", "must_not"),
    [
        (Claim("asymptotic", 2.0), "computed on this database", "every possible database"),
        (Claim("local", 2.0), "not a guarantee", "every possible database"),
        (Claim("risk", None), "no epsilon", "epsilon ="),
        (Claim("formal", 2.0, relation="replace"), "every possible database", "blank"),
        (Claim("formal", 2.0, relation="add-remove"), "presence", "public columns"),
        (Claim("formal", 2.0, delta=1e-9), "delta = 1e-09", "delta = 0"),
    ],
)
def test_each_kind_claims_its_own(claim, must, must_not):
    assert must in str(claim)
    assert must_not not in str(claim)


@settings(deadline=None)  # the machine may be busy
@given(epsilons)
def test_the_printed_factor_is_never_below_the_true_one(epsilon):
    text = str(Claim("formal", epsilon, relation="replace"))
    printed = float(text.split("factor of at most ")[1].split(", in either")[0].replace(",", ""))
    assert math.exp(epsilon) <= printed <= math.exp(epsilon) * 1.011


@pytest.mark.parametrize(
    "claim",
    [
        Claim("formal", 0.1, mechanism="Censored", conditions=("ä § 1", "b")),
        Claim("asymptotic", 1 / 3),
        Claim("local", 1e-300, delta=1e-9, relation="add-remove"),
        Claim("risk", None, mechanism="PairwiseRisk"),
    ],
)
def test_json_round_trip(claim):
    assert Claim.from_json(claim.to_json()) == claim
    assert json.loads(claim.to_json())["schema"] == "understudy-claim-2"
    assert claim.to_json().startswith('{\n  "schema": "understudy-claim-2",\n  "kind": ')


def changed(**fields):
    return json.dumps(json.loads(Claim("formal", 1.0).to_json()) | fields)


def test_a_claim_of_the_first_schema_is_for_one_record():
    values = json.loads(Claim("formal", 1.0).to_json())
    unit = values.pop("unit")
    with pytest.raises(Refused, match="lacks the field `unit`"):
        Claim.from_json(json.dumps(values))
    old = json.dumps({**values, "schema": "understudy-claim-1"})
    assert Claim.from_json(old).unit == unit == "record"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "object"),
        ("{}", "schema"),
        (changed(schema="understudy-claim-3"), "schema"),
        (changed(epsilom=1.0), "epsilon"),
        (changed(epsilon="1"), "epsilon"),
        (changed(epsilon=-1.0), "epsilon"),
        (changed(conditions="a"), "conditions"),
        (changed().replace("1.0", "NaN"), "NaN"),
        (changed().replace('"delta": 0.0', '"delta": 0.0, "delta": 0.5'), "twice"),
        (changed().replace('"mechanism": "", ', ""), "mechanism"),
    ],
)
def test_a_wrong_document_is_refused(text, problem):
    with pytest.raises(Refused, match=problem):
        Claim.from_json(text)


def test_one_of_a_thing_is_not_several() -> None:
    assert [several(n, "draw") for n in (0, 1, 2)] == ["0 draws", "1 draw", "2 draws"]
