"""What the two measures say and cannot say, in the words that pages and receipts use."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.verify.query import Condition, Measure, Query

TITLES: Mapping[Measure, str] = {
    "discrepancy": "Discrepancy: how far apart are the two estimates?",
    "agreement": "Agreement: how often does a part of the confidential file agree?",
}

TELLS: Mapping[Measure, str] = {
    "discrepancy": (
        "The server splits the confidential file into parts at random, measures how far each "
        "part's estimate is from yours, and reports the average with noise of known size. You "
        "get the difference, an interval, and the probability that it is within your tolerance."
    ),
    "agreement": (
        "The server splits the confidential file into parts at random and counts, with noise, "
        "how many parts give an estimate inside an interval around yours. You get the chance "
        "that a part falls inside. This is the measure of the published method."
    ),
}

CANNOT: Mapping[Measure, str] = {
    "discrepancy": (
        "It cannot say more than its noise allows, and it cannot show a difference beyond the "
        "range that was set before asking. It compares two estimates; it does not say that "
        "either is close to the truth in the population. For means, ratios, quantiles and "
        "coefficients the average over the parts is close to the estimate of the whole file, "
        "not equal to it. Where a few records have very large weights, the range cuts off what "
        "they do, and a difference that they make can go unseen."
    ),
    "agreement": (
        "It hardly tells whether the estimate of the whole confidential file is inside your "
        "tolerance: parts scatter more than the whole, so the interval is widened, and a "
        "difference of several standard errors can pass. In our trials it told inside from "
        "outside little better than a coin. Choose discrepancy unless you need the published "
        "measure."
    ),
}

ESTIMATORS: Mapping[str, str] = {
    "mean": "Mean of a number",
    "total": "Total of a number",
    "proportion": "Proportion with a property",
    "difference": "Difference between two groups",
    "ratio": "Ratio of two numbers",
    "quantile": "Quantile (such as the median)",
    "linear": "Coefficient of a linear regression",
    "logistic": "Coefficient of a logistic regression",
}


def question_in_words(query: Query) -> str:
    """One line for lists: "Mean of salary where gender is Female"."""
    of = query.variable
    if query.level is not None:
        of = f"{query.variable} = {query.level}"
    lead = {
        "mean": f"Mean of {of}",
        "total": f"Total of {of}",
        "proportion": f"Proportion with {of}",
        "difference": f"Difference in {'the share of' if query.level is not None else 'mean'} {of}",
        "ratio": f"Ratio {of} / {query.denominator}",
        "quantile": f"{(query.probability or 0) * 100:g} % quantile of {of}",
        "linear": f"Linear coefficient of {_coefficient(query)} on {of}",
        "logistic": f"Logistic coefficient of {_coefficient(query)} on {of}",
    }[query.estimator]
    where = _where(query.domain)
    if query.estimator == "difference":
        return f"{lead}: {where or 'everyone'} against {_where(query.versus)}"
    return f"{lead} where {where}" if where else lead


def _coefficient(query: Query) -> str:
    name = query.coefficient or ""
    return name if query.coefficient_level is None else f"{name} = {query.coefficient_level}"


def _where(domain: tuple[Condition, ...]) -> str:
    parts = []
    for condition in domain:
        levels = " or ".join(str(level) for level in condition.levels)
        parts.append(f"{condition.column} is {levels}")
    return " and ".join(parts)
