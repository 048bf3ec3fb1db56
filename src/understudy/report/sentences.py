"""The plain-language summary: what was released, what protects it, how close and how risky."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from understudy.report.attempts import attack_sentence
from understudy.report.numbers import digits, fixed, listed, percent
from understudy.report.plain import finite

FEW_COLUMNS = 4  # whose distributions are spoken of one by one

PROMISES = {
    "formal": "a formal privacy claim",
    "asymptotic": "an asymptotic privacy claim",
    "local": "a local figure, which is not a guarantee",
}


def summary(evidence: dict[str, Any]) -> list[str]:
    """Sentences that somebody who reads nothing else should read."""
    sentences = [_released(evidence), protection(evidence["claim"], evidence["mechanism"])]
    sentences += [
        _table(evidence["table"]),
        *_distributions(evidence["utility"], evidence["datasets"]),
    ]
    sentences += [
        _risk(evidence["risk"], evidence["rows_correspond"]),
        attack_sentence(evidence["attacks"]),
        _chains(evidence["chains"]),
    ]
    return [sentence for sentence in (*sentences, _looked_at(evidence["looked_at"])) if sentence]


def _looked_at(records: int | None) -> str:
    if records is None:
        return ""
    return (
        f"The file is large: distributions, pairs of columns, propensity and bootstrap are of "
        f"{records:,} records of each file, drawn at random. Tables, regressions and risks are of "
        "all records."
    )


def protection(claim: dict[str, Any], mechanism: str) -> str:
    """The claim in one sentence; the whole of it is on the page."""
    if claim["kind"] == "risk":
        return (
            f"What protects it: {mechanism}. There is no epsilon; protection is measured as "
            "identification risk."
        )
    numbers = f"epsilon = {claimed(claim['epsilon'])} (relation `{claim['relation']}`)"
    if claim["epsilon_replace"] is not None:
        numbers += f", or {claimed(claim['epsilon_replace'])} (relation `replace`)"
    if claim["delta"]:
        numbers += f", delta = {claimed(claim['delta'])}"
    return (
        f"What protects it: {mechanism}, with {PROMISES[claim['kind']]}: {numbers}, for all "
        "files together and under the conditions below."
    )


def claimed(number: float) -> str:
    """The number of a claim: as it is where that is short, else four digits, rounded up."""
    exact = Decimal(repr(float(number)))
    short = Context(prec=4, rounding=ROUND_CEILING).create_decimal(exact)
    return f"{exact.normalize():f}" if len(exact.as_tuple().digits) <= 6 else f"{short:g}"


def _released(evidence: dict[str, Any]) -> str:
    count, n = evidence["datasets"], evidence["records_in_file"]
    files = "1 synthetic file" if count == 1 else f"{count} synthetic files"
    columns = [f"`{name}`" for name in evidence["sensitive"]]
    are = "is" if len(columns) == 1 else "are"
    each = " each" if count > 1 else ""
    text = f"What was released: {files} of {n:,} records{each}, made by {evidence['model']}. "
    if evidence["all_drawn"]:
        text += f"Every value is synthetic ({listed(columns)})."
    else:
        text += f"{listed(columns)} {are} synthetic; the other columns are the real ones."
    if evidence["dropped"]:
        text += f" {evidence['dropped']:,} records without a sensitive value were left out first."
    return text


def _table(table: dict[str, Any]) -> str:
    compared = [cell for cell in table["cells"] if finite(cell["difference"]) is not None]
    if not compared:
        return ""
    worst = max(compared, key=lambda cell: abs(cell["difference"]))
    apart = sorted(abs(cell["difference"]) for cell in compared if cell["difference"])
    same = len(compared) - len(apart)
    if not apart:
        return "All numbers of the released table are equal to the confidential ones."
    text = (
        f"The released table against the confidential one: the largest difference is "
        f"{digits(abs(worst['difference']), 2)} confidential standard errors "
        f"({worst['statistic']} for {worst['cell']}); half of the {len(apart):,} numbers that "
        f"differ do so by less than {digits(apart[len(apart) // 2], 2)}."
    )
    if same:
        text += f" A further {same:,} are equal on both sides."
    return text


def _distributions(utility: dict[str, Any], datasets: int) -> list[str]:
    """A sentence for each of a few columns; for many, one with their range."""
    average = ", on average over the files" if datasets > 1 else ""
    means = (
        "the shares of records at or below it in the confidential and a synthetic file differ "
        "by at most"
    )
    columns = sorted(utility["columns"], key=lambda column: -column["U_m"])
    if len(columns) <= FEW_COLUMNS:
        return [
            f"The distribution of `{column['column']}`: U_m = {fixed(column['U_m'], 3)}. Whatever "
            f"the value, {means} {percent(round(column['U_m'], 3))} of the records{average}."
            for column in utility["columns"]
        ]
    middle = columns[len(columns) // 2]
    worst = [f"`{c['column']}` ({percent(round(c['U_m'], 3))})" for c in columns[:FEW_COLUMNS]]
    return [
        f"The distributions of {len(columns)} numbers: whatever the value, {means} "
        f"{percent(round(middle['U_m'], 3))} of the records with an answer in half of them"
        f"{average}; most in {listed(worst)}."
    ]


def _risk(risk: dict[str, Any] | None, rows_correspond: bool) -> str:
    if risk is None or "refused" in risk:
        return ""
    panel = risk["panels"][0]
    shares = {release["release"]: release["share_above"] for release in panel["releases"]}
    knows = listed([f"`{name}`" for name in panel["known"]]) or "nothing about the record"
    who = f"An intruder who knows {knows}"
    above = f"{risk['phrase']} above {digits(risk['threshold'], 1)}"
    if not rows_correspond:
        return (
            f"{who} would find {percent(shares['confidential'])} of the records of the "
            f"confidential file with {above}; records of the release correspond to nobody."
        )
    if "synthetic" not in shares:
        return (
            f"{who} would find {percent(shares['confidential'])} of the records of the "
            f"confidential file with {above}."
        )
    return (
        f"{who}: {percent(shares['synthetic'])} of the records have {above} in the release, "
        f"against {percent(shares['confidential'])} had the confidential file been published."
    )


def _chains(chains: dict[str, Any] | None) -> str:
    if chains is None:
        return ""
    if chains["failures"]:
        return "The sampler did not do well: " + "; ".join(chains["failures"]) + "."
    if chains["misses"]:
        return (
            f"The chains had not mixed well ({'; '.join(chains['misses'])}), but well enough for "
            "the files: standard errors of the numbers that were looked at are at most "
            f"{percent(chains['shortfall'])} too small for it."
        )
    return (
        f"The sampler did well: largest R-hat {fixed(chains['largest_rhat'], 4)}, smallest "
        f"effective sample size {fixed(chains['least_ess'], 0)}, "
        f"{chains['divergences']:,} divergent transitions."
    )
