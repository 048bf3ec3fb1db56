"""The words of a recipe: every section and key, its kind, and what it says.

The reference of release.toml (docs/recipe.md) is written from these tables, and a mistake in a
recipe is answered from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from understudy.survey.file_format import endings_read, formats, listed

Kind = Literal["text", "texts", "number", "numbers", "whole", "yes or no", "path", "table", "any"]


@dataclass(frozen=True)
class Key:
    """One key: what kind of value it takes and what it means."""

    kind: Kind
    words: str
    required: bool = False
    default: Any = None


# Formats that a release may be written in, beside parquet.
RELEASED = [one.written[0] for one in formats() if one.written and one.name != "Parquet"]

SECTIONS: dict[str, dict[str, Key]] = {
    "data": {
        "path": Key("path", f"The confidential file: {listed(endings_read())}.", True),
        "format": Key("text", "Its format, if the ending does not tell: `mine.py:Mine`."),
        "codebook": Key("path", "The codebook; drafted from the file when it is left out."),
        "where": Key("text", "Only these records, such as `PINCP > 0`; the claim says so."),
        "floats": Key("texts", "Whole-number columns to store as decimals, such as a weight."),
    },
    "design": {
        "weight": Key("text", "Column of the design weight."),
        "strata": Key("text", "Column of the strata."),
        "psu": Key("text", "Column of the primary sampling units."),
        "fpc": Key("text", "Column with the stratum's number of PSUs, or the sampled fraction."),
        "lonely_psu": Key("text", "fail, certainty, adjust or average.", default="fail"),
        "nest": Key("yes or no", "Whether PSU numbers start again in every stratum."),
        "replicates": Key("table", "prefix or columns, kind, fay, coefficients, centre."),
    },
    "synthesis": {
        "model": Key("text", "Name of a model, or `file.py:function` for your own.", True),
        "sensitive": Key("texts", "The columns that are synthesized.", True),
        "predictors": Key("text", "A formula over public columns, such as `field + gender`."),
        "datasets": Key("whole", "Number of synthetic data sets.", default=1),
        "seed": Key("whole", "Seed of the model, to be kept secret; drawn when left out."),
        "publish": Key("texts", "Further public columns that the synthetic files shall hold."),
        "missing": Key("text", "Sensitive values that are missing: refuse, drop or model."),
        "diagnostics": Key("text", "Chains that do not agree: refuse, or report (kind risk only)."),
        "draws": Key("whole", "Posterior draws over all chains.", default=2000),
        "chains": Key("whole", "Chains of the sampler.", default=4),
        "warmup": Key("whole", "Warm-up iterations of each chain.", default=500),
        "target_acceptance": Key("number", "Acceptance rate the sampler aims at.", default=0.8),
    },
    "privacy": {
        "mechanism": Key("text", "Name of a mechanism.", True),
    },
    "tables": {
        "statistics": Key("texts", 'Such as "count", "mean(salary)".', True),
        "by": Key("texts", "Classifying columns.", default=()),
        "margins": Key("yes or no", "Whether margins are shown.", default=True),
    },
    "risk": {
        "known": Key("any", "Columns that an intruder knows: a list, or several lists.", True),
        "radius": Key("number", "Values within this relative distance are as good.", default=0.2),
        "threshold": Key("number", "Risks above it are counted.", default=0.5),
    },
    "utility": {
        "regression": Key("text", "A formula to compare, such as `log(salary) ~ gender`."),
    },
    "output": {
        "folder": Key("path", "Where the bundle goes; the recipe's own name when left out."),
        "title": Key("text", "Title of the release; the codebook's when left out."),
        "formats": Key(
            "texts", f"{listed(RELEASED)} beside parquet, or `mine.py:Mine`.", default=()
        ),
    },
    "ledger": {
        "place": Key("path", "The ledger's file, or a postgresql:// address.", True),
        "head": Key("path", "The file with the head of its chain, kept elsewhere."),
        "cap": Key("text", 'Epsilon ever to be spent on these records, such as "10".', True),
    },
}

REQUIRED_SECTIONS = ("data", "synthesis", "privacy")

# Further keys of [synthesis] and [privacy], by the model or mechanism that they belong to.
MODEL_KEYS: dict[str, dict[str, Key]] = {
    "Beta": {"bounds": Key("numbers", "Public bounds, if the codebook has none.")},
    "BetaRegression": {"bounds": Key("numbers", "Public bounds, if the codebook has none.")},
    "FBS": {
        "population": Key("number", "Public size of the population, if not in the codebook."),
        "tables": Key("text", "recommended or paper: for which estimator files are made."),
    },
    "FBP": {
        "population": Key("number", "Public size of the population, if not in the codebook."),
        "tables": Key("text", "recommended or paper: for which estimator files are made."),
    },
    "NegativeBinomial": {},
    "Mixture": {
        "components": Key("whole", "Largest number of components.", default=10),
        "assignments": Key("text", "posterior (kind risk only) or prior (with epsilon)."),
        "zero": Key("text", "How zero and negative values are modelled."),
        "zero_by": Key("texts", "Columns that the hurdle depends on."),
        "typical": Key("number", "A public typical value of the outcome."),
    },
    "Multinomial": {
        "prior": Key("number", "Dirichlet prior of each cell.", default=0.5),
        "size": Key("whole", "Records in each synthetic file; the file's own number by default."),
    },
}
PREDICTORS = {"BetaRegression", "FBS", "FBP", "Mixture"}  # models that need a formula
MAY_HAVE_PREDICTORS = PREDICTORS | {"NegativeBinomial"}

_EPSILON = Key("number", "Privacy budget of the whole release, over all data sets.", True)
_C1 = Key("number", "Scale of the record weights.", default=1.0)
_C2 = Key("number", "Shift of the record weights.", default=0.0)
_BINS = Key("any", "sqrt, ln, or a number of bins.", default="sqrt")
_RELATION = Key("text", "add-remove or replace.", default="add-remove")
_RISK = {
    "known": Key("texts", "Columns that an intruder knows.", True),
    "radius": Key("number", "Relative radius of the ball around a value.", default=0.2),
    "c": Key("number", "Scale of the weights.", default=1.0),
    "g": Key("number", "Shift of the weights.", default=0.0),
    "target": Key("texts", "Sensitive columns, if not all of the model's."),
    "small_patterns": Key("text", "What becomes of patterns with few records."),
    "radius_kind": Key("text", "relative or absolute.", default="relative"),
    "reference": Key("path", "A historical file that the weights are taken from."),
}
MECHANISM_KEYS: dict[str, dict[str, Key]] = {
    "Unweighted": {},
    "Weighted": {
        "epsilon": Key("number", "Target over all data sets; the weights as they come if none."),
        "bound": Key("number", "Target of the record bound instead of epsilon."),
        "map": Key("text", "linear or inverse.", default="linear"),
        "c1": _C1,
        "c2": _C2,
    },
    "WeightedE": {"epsilon": _EPSILON, "c1": _C1, "c2": _C2},
    "Censored": {
        "epsilon": _EPSILON,
        "weighted": Key("yes or no", "Whether records are weighted first.", default=True),
        "c1": _C1,
        "c2": _C2,
        "weights": Key("table", 'Risk weights instead: { mechanism = "PairwiseRisk", ... }.'),
    },
    "ReferenceCensored": {
        "epsilon": _EPSILON,
        "reference": Key("path", "A historical file with the same columns, or `two-stage`.", True),
        "scale": Key("any", "auto, or a number.", default="auto"),
        "prior_scale": Key("number", "Spread of the prior around the reference."),
        "first_stage": Key("number", "Share of epsilon for the first stage of two."),
        "bins": _BINS,
    },
    "PerturbedHistogram": {"epsilon": _EPSILON, "bins": _BINS},
    "MarginalRisk": _RISK,
    "PairwiseRisk": _RISK,
    "QWayRisk": {**_RISK, "q": Key("whole", "Size of the groups.", default=3)},
    "ConstantWeight": {"value": Key("number", "The weight of every record, 0 to 1.", True)},
    "Modips": {
        "epsilon": _EPSILON,
        "support": Key("text", "observed, public or threshold.", default="observed"),
        "relation": _RELATION,
        "delta": Key("number", "For support = threshold."),
    },
    "Marginals": {
        "epsilon": _EPSILON,
        "order": Key("whole", "Variables in each marginal table.", default=2),
        "relation": _RELATION,
    },
}
# Mechanisms for whole categorical records; all others go with the models of one outcome.
COUNT_MECHANISMS = ("Unweighted", "Modips", "Marginals")
