"""Every mechanism and every model in a release of its own; a class that is new joins by itself."""

from __future__ import annotations

from releases import Case

from understudy.declarations import settings_of
from understudy.release.model_part import all_models
from understudy.release.parts import all_mechanisms

REGRESSION = 'predictors = "area + sex"'
# What a class needs beside epsilon, and a model it goes with.
MECHANISMS: dict[str, str] = {
    "Unweighted": "",
    "ConstantWeight": "value = 0.5",
    "Censored": "epsilon = 4\nweighted = false",
    "ReferenceCensored": 'epsilon = 4\nreference = "two-stage"',
    "MarginalRisk": 'known = ["area"]',
    "PairwiseRisk": 'known = ["area"]',
    "QWayRisk": 'known = ["area"]',
}
ONE_VARIABLE = ("PerturbedHistogram", "ReferenceCensored")  # no predictors
FIGURES = ("Weighted", "WeightedE")
MODELS: dict[str, tuple[tuple[str, ...], str]] = {
    "Beta": (("share",), "bounds = [0.0, 100.0]"),
    "BetaRegression": (("share",), f"bounds = [0.0, 100.0]\n{REGRESSION}"),
    "FBS": (("income", "w"), REGRESSION),
    "FBP": (("income", "w"), REGRESSION),
    "NegativeBinomial": (("visits",), REGRESSION),
    "Mixture": (
        ("income",),
        f'assignments = "prior"\ntypical = 30000.0\nzero_by = ["sex"]\n{REGRESSION}',
    ),
}
ROWS = {
    "Modips": 'epsilon = 4\nsupport = "public"\nrelation = "replace"',
    "Marginals": 'epsilon = 40\nrelation = "replace"',
}
GIVEN = """
[[given]]
model = "BetaRegression"
sensitive = "share"
bounds = [0.0, 100.0]
predictors = "group * rank"
privacy = { mechanism = "Censored", epsilon = 4, weighted = false }
"""
GIVEN_MIXTURE = """
[[given]]
model = "Mixture"
sensitive = "income"
predictors = "group + rank"
components = 3
assignments = "prior"
typical = 30000.0
zero_by = ["rank"]
privacy = { mechanism = "Censored", epsilon = 4, weighted = false }
"""


def by_mechanism() -> list[Case]:
    """All that synthesize an outcome, with a model of one share."""
    cases = []
    for name, cls in all_mechanisms().items():
        if "outcome" not in str(cls.synthesizes):
            continue
        if name == "NoisyMoments":
            clip = "epsilon = 4\nclip = [[100.0, 1e6], [10.0, 1000.0]]"
            cases.append(Case("FBS", name, *MODELS["FBS"], clip, weight=True))
            cases.append(Case("FBP", name, *MODELS["FBP"], clip, weight=True, unit=True))
            cases.append(Case("BetaRegression", name, *MODELS["BetaRegression"], "epsilon = 4"))
            cases.append(Case("NegativeBinomial", name, *MODELS["NegativeBinomial"], "epsilon = 4"))
            continue
        model = "Beta" if name in ONE_VARIABLE else "BetaRegression"
        drawn, synthesis = MODELS[model]
        privacy = MECHANISMS.get(name, "epsilon = 4" if "epsilon" in settings_of(cls) else "")
        cases.append(Case(model, name, drawn, synthesis, privacy, figures=name in FIGURES))
    return cases


def by_model() -> list[Case]:
    """All models of an outcome under Censored, and a NumPyro function of the steward's own."""
    cases = []
    for name, cls in all_models().items():
        if cls.synthesizes != "outcome" or name == "BetaRegression":
            continue
        drawn, synthesis = MODELS[name]
        weight = "w" in drawn
        cases.append(
            Case(name, "Censored", drawn, synthesis, MECHANISMS["Censored"], weight=weight)
        )
    own = "mine.py:shares"
    cases.append(Case(own, "Censored", ("share",), 'publish = ["area"]', MECHANISMS["Censored"]))
    return cases


def by_counts() -> list[Case]:
    """Whole rows with noise (without it they are the mechanism's own), and mixed releases, whose
    regressions are given what was drawn."""
    drawn = ("group", "rank")
    cases = [Case("Multinomial", name, drawn, "", privacy) for name, privacy in ROWS.items()]
    threshold = 'epsilon = 4\nsupport = "threshold"\ndelta = 0.1\nrelation = "replace"'
    cases.append(Case("Multinomial", "Modips", ("place", "rank"), "", threshold))
    private = 'epsilon = 40\nrelation = "replace"\norder = 2'
    for quality in ("", "\nquality = 0.25"):
        rows = ("group", "rank", "share")
        cases.append(Case("WholeFile", "Marginals", rows, "", private + quality))
    clusters = private + "\nclusters = 0.25"
    cases.append(Case("WholeFile", "Marginals", rows, "", clusters, psu=True))
    modips = ROWS["Modips"]
    cases.append(Case("Multinomial", "Modips", drawn, "", modips, GIVEN))
    cases.append(Case("Multinomial", "Modips", drawn, "", modips, GIVEN_MIXTURE))
    return cases


def by_unit() -> list[Case]:
    """Claims for homes: summed contributions, limited counts, and rows of which some columns are
    kept."""
    drawn, synthesis = MODELS["BetaRegression"]
    censored = MECHANISMS["Censored"]
    more_epsilon = ROWS["Modips"].replace("4", "12")  # for three records
    cases = [Case("BetaRegression", "Censored", drawn, synthesis, censored, unit=True)]
    cases.append(Case("Beta", "PerturbedHistogram", *MODELS["Beta"], "epsilon = 4", unit=True))
    cases.append(Case("Multinomial", "Modips", ("group", "rank"), "", more_epsilon, unit=True))
    private, kept = 'epsilon = 40\nrelation = "blank"\norder = 2', 'keep = ["area"]'
    rows = ("group", "rank", "share")
    for unit in (False, True):
        cases.append(Case("WholeFile", "Marginals", rows, kept, private, unit=unit))
    return cases


def by_correction() -> list[Case]:
    """Tables corrected by the records: of rows that are all drawn, and of a drawn share by a public
    column, for homes."""
    rows = ("group", "rank", "share")
    private = 'epsilon = 40\nrelation = "replace"\norder = 2'
    drawn, synthesis = MODELS["BetaRegression"]
    censored = MECHANISMS["Censored"]
    return [
        Case("WholeFile", "Marginals", rows, "", private, corrects="share", by="group"),
        Case(
            "BetaRegression", "Censored", drawn, synthesis, censored, unit=True,
            corrects="share", by="area",
        ),
    ]  # fmt: skip


CASES = [*by_mechanism(), *by_model(), *by_correction(), *by_unit(), *by_counts()]
