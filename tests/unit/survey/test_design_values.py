"""Designs as plain values, as recipes, configurations and releases have them."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from understudy.errors import Refused
from understudy.survey.design import Design, Replicates, Stage
from understudy.survey.design_values import design_from, design_to

DESIGNS = [
    Design(),
    Design("w", "h", "p", "f", nest=True, lonely_psu="adjust"),
    Design("w", psu="p", fpc="N", stages=[Stage("s", "M"), Stage("t", "K", "g")]),
    Design("w", psu="p", fpc="pi", pps="hartley-rao", square_sum="q"),
    Design("w", calibrated="C(sex) + income", base_weight="d"),
    Design("w", replicates=Replicates(columns=("a", "b"), kind="jkn", coefficients=(0.5, 0.5))),
]


@pytest.mark.parametrize("design", DESIGNS)
def test_a_design_comes_back_from_json(design: Design) -> None:
    assert design_from(json.loads(json.dumps(design_to(design)))) == design


def test_later_stages_in_toml() -> None:
    text = 'weight = "w"\npsu = "p"\nfpc = "N"\n[[stages]]\nunit = "s"\nfpc = "M"\n'
    assert design_from(tomllib.loads(text)).stages == (Stage("s", "M"),)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"calibratd": "x"}, "did you mean `calibrated`"),
        ({"stages": {"unit": "s"}}, "list of tables"),
        ({"stages": ["s"]}, "must be a table"),
        ({"stages": [{"unit": "s"}]}, "needs `fpc`"),
        ({"stages": [{"unit": "s", "fpc": 3}]}, "needs `fpc`"),
        ({"stages": [{"unit": "s", "fpc": "M", "starta": "g"}]}, "did you mean `strata`"),
        ({"replicates": {"prefix": "r", "kind": "fay", "fay": "half"}}, "fay is a number"),
        ({"replicates": "rep"}, "must be a table"),
        ({"replicates": {"prefixes": "rep"}}, "did you mean `prefix`"),
    ],
)
def test_mistakes(values: dict[str, Any], says: str) -> None:
    with pytest.raises(Refused) as refused:
        design_from(values)
    assert says in str(refused.value)


def test_what_synthetic_files_say_of_a_design() -> None:
    """A total that a synthetic column does not meet is not claimed; the weight before stays."""
    design = Design("w", calibrated="C(sex) + income", base_weight="d")
    assert design.published(["pay"]) == Design("w", calibrated="C(sex) + income")
    assert design.published(["income"]) == Design("w")
    unequal = Design("w", psu="p", fpc="pi", pps="hartley-rao", square_sum="q")
    assert unequal.published([]) == Design("w", psu="p", fpc="pi", pps="brewer")
