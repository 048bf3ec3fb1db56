"""Everything the study of paper R writes: tables as CSV, figures, and study.html."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from pathlib import Path
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.risk_weights import tables as tables
from understudy_studies.risk_weights import words as words
from understudy_studies.risk_weights.figures import application_figures, simulation_figures
from understudy_studies.risk_weights.simulation import RISE

Row = dict[str, Any]

NEAR = 1.05  # an R-hat that is no proof, but no alarm for a study

HEADS = {"riskiest": "riskiest 1 %", "rising": f"rise by {RISE:g}"}
CAPTIONS = {
    "simulation-figure-04": "R Figure 4: the simulated counts.",
    "simulation-figure-05a": "R Figure 5a: risk of each record by radius; D data, S Synthesizer, "
    "M Marginal.",
    "simulation-figure-05b": "R Figure 5b: records that rise from the Synthesizer to the Marginal.",
    "simulation-figure-05c": "Control: records that rise from the Synthesizer to a second run of "
    "itself.",
    "simulation-figure-06": "R Figure 6: risk under the Marginal by radius.",
    "simulation-figure-07": "R Figure 7: mean and median; medians over the simulated files, "
    "lines are the data's.",
    "simulation-supplement-2": "R supplement Figure 2, with the controls.",
    "simulation-supplement-3": "R supplement Figure 3: records that rise under the Pairwise.",
    "simulation-supplement-4": "R supplement Figure 4: mean and median; lines are the data's.",
    "application-figure-02": "R Figure 2: risk in the data, under S and M, and topcoded (T).",
    "application-figure-03": "R Figure 3: records that rise from the Synthesizer to the Marginal.",
    "application-figure-08": "R Figure 8, with the controls.",
    "application-figure-09": "R Figure 9b: records that rise from the Synthesizer to the Pairwise.",
    "application-figure-09-control": "Control: records that rise in a second unweighted run.",
    "application-figure-10": "R Figure 10: estimates and intervals; lines are the data's. "
    "Earner 2: coefficient of families without an earner, in a regression of income.",
    "application-supplement-5": "R supplement Figure 5: pairwise weights against income.",
    "application-supplement-6": "R supplement Figure 6: the adjustments c and g.",
    "application-supplement-7": "R supplement Figure 7: risk under the adjustments.",
}


def write_results(
    out: Path, simulated: Sequence[Row], applied: Sequence[Row], source: str, real: bool
) -> Path:
    """All files of the study from its stored numbers; returns the page."""
    rows = tables.simulation_rows(simulated)
    found = {
        "simulation-table-5": tables.simulation_ecdf(rows),
        "simulation-risk": tables.simulation_risk(rows),
        "simulation-table-6": tables.table_6(simulated),
        "application-table-7": tables.application_ecdf(applied),
        "application-risk": tables.application_risk(applied),
        "application-table-4": tables.application_intervals(applied),
        "application-table-2": tables.top_ten(applied, largest=False),
        "application-table-3": tables.top_ten(applied, largest=True),
        "convergence": tables.convergence_table(applied),
    }
    for name, table in found.items():
        table.write_csv(out / f"{name}.csv")
    rows.write_csv(out / "simulation-rows.csv")
    figures = {f"simulation-{k}": v for k, v in simulation_figures(simulated, rows).items()}
    intervals = found["application-table-4"]
    figures |= {f"application-{k}": v for k, v in application_figures(applied, intervals).items()}
    for name, draw in figures.items():
        us.save_figure(draw(), out / name)
    summary = [
        *words.simulation_summary(
            found["simulation-table-5"], found["simulation-risk"], len(simulated)
        ),
        *words.application_summary(
            found["application-table-7"],
            found["application-risk"],
            real,
            sum(bool(one["convergence"]["failures"]) for one in applied[1:]),
            len(applied) - 1,
            max(_apart(one) for one in applied[1:]),
        ),
    ]
    return us.write_page(
        out / "study.html",
        "Risk-weighted synthesis: what the weights achieve, and what is noise",
        summary,
        _parts(out, found, applied, source, len(simulated)),
        f"Understudy {us.__version__}, `understudy study risk-weights`; {us.INTERNAL}. Paper R: "
        "Hu, Savitsky and Williams, Risk-Efficient Bayesian Data Synthesis for Privacy Protection.",
    )


def _parts(
    out: Path, found: dict[str, pl.DataFrame], applied: Sequence[Row], source: str, files: int
) -> list[us.Part]:
    def picture(name: str) -> us.Picture:
        return us.Picture(out / f"{name}.svg", CAPTIONS[name], CAPTIONS[name])

    def pictures(start: str, *names: str) -> tuple[us.Picture, ...]:
        return tuple(picture(f"{start}-{name}") for name in names)

    def grid(name: str, caption: str) -> us.Grid:
        return as_grid(caption, found[name], f"{name}.csv")

    return [
        us.Heading("How to read the comparisons"),
        us.Words(words.CONTROLS),
        us.Heading(f"Simulated counts (R §2.4 and supplement §6), {files} files"),
        by_synthesizer("R Table 5 and supplement Table 2: ours, median and [5 %, 95 %] over the "
                       "files, beside the published", found["simulation-table-5"],
                       "simulation-table-5.csv"),
        by_synthesizer("Risk at r = 15 %, with the controls: median and [5 %, 95 %] over the "
                       "files", found["simulation-risk"], "simulation-risk.csv"),
        *pictures("simulation", "supplement-2", "figure-05b", "figure-05c", "supplement-3"),
        us.Fold("Sensitivity to the radius and to the number of data sets", (
            *pictures("simulation", "figure-04", "figure-05a", "figure-06", "figure-07",
                      "supplement-4"),
            grid("simulation-table-6", "R Table 6: published, and ours over the files"),
        )),
        us.Heading("Family incomes (R §2.3, §3.2 and supplement §7)"),
        us.Words(f"The file: {source} {words.SMALL_PATTERNS}"),
        grid("application-table-7", "R Table 7, supplement Tables 1 and 3"),
        grid("application-risk", "Risk at r = 20 %, with the controls"),
        *pictures("application", "figure-08", "figure-09", "figure-09-control", "figure-10"),
        us.Fold("Topcoding, single records, and the adjustments c and g", (
            *pictures("application", "figure-02", "figure-03", "supplement-5", "supplement-6",
                      "supplement-7"),
            grid("application-table-4", "R Table 4: estimates and intervals"),
            grid("application-table-2", "R Table 2: the ten riskiest records"),
            grid("application-table-3", "R Table 3: the ten largest incomes"),
        )),
        us.Heading("Did the chains converge?"),
        us.Words(words.CONVERGENCE),
        us.Points(tuple(_verdict(one) for one in applied[1:])),
        us.Fold("Every predictive quantity", (grid("convergence", "R-hat and bulk ESS"),)),
    ]  # fmt: skip


def _verdict(one: Row) -> str:
    found = one["convergence"]
    lines = found["quantities"]
    worst = max(lines, key=lambda line: float(line["R-hat"]))
    least = min(lines, key=lambda line: float(line["bulk ESS"]))
    near = sum(float(line["R-hat"]) < NEAR for line in lines)
    return (
        f"{one['name']} {'does not pass' if found['failures'] else 'passes'}: {found['chains']} "
        f"chains, {found['draws']} kept draws; R-hat below {NEAR} for {near} of {len(lines)} "
        f"quantities, largest {worst['R-hat']:.3f} ({worst['quantity']}); least bulk ESS "
        f"{least['bulk ESS']:.0f} ({least['quantity']}); means of the chains at most "
        f"{_apart(one):.4f} apart in F; divergent transitions: {found['divergences']}; "
        f"{_time(one)}."
    )


def _apart(one: Row) -> float:
    """By how much the means of the chains differ in the distribution function, at most."""
    lines = [q for q in one["convergence"]["quantities"] if q["quantity"].startswith("F(")]
    return max(float(line["chains apart"]) for line in lines)


def _time(one: Row) -> str:
    """CPU seconds say more than the clock where other work shares the machine."""
    cpu = f" ({one['cpu seconds']:.0f} CPU-s)" if "cpu seconds" in one else ""
    return f"{one['seconds']:.0f} s{cpu}"


def by_synthesizer(caption: str, table: pl.DataFrame, file: str) -> us.Grid:
    """One line for each synthesizer, and for each measure one column: median and [5 %, 95 %],
    then the published number where the table has one."""
    there = set(table["measure"])
    lines: dict[str, list[str]] = {
        name: [name] for name in table["synthesizer"].unique(maintain_order=True)
    }
    heads = ["synthesizer"]
    for measure in (one for one in tables.MEASURES if one in there):
        part = table.filter(pl.col("measure") == measure)
        digits = max(0, 2 - floor(log10(part["median"].abs().max() or 1.0)))  # type: ignore[arg-type]
        rows = {row["synthesizer"]: row for row in part.iter_rows(named=True)}
        heads.append(HEADS.get(measure, measure))
        for name, line in lines.items():
            line.append(_with_spread(rows[name], digits) if name in rows else "–")
        if "published" in part.columns:
            heads.append("published")
            for name, line in lines.items():
                line.append(_text(rows.get(name, {}).get("published")))
    return us.Grid(caption, tuple(heads), tuple(tuple(line) for line in lines.values()), file)


def _with_spread(row: Row, digits: int) -> str:
    middle, low, high = (f"{row[name]:.{digits}f}" for name in ("median", "5 %", "95 %"))
    return f"{middle} [{low}, {high}]"


def as_grid(caption: str, table: pl.DataFrame, file: str) -> us.Grid:
    """A frame as texts: four significant digits, thousands with commas."""
    body = tuple(tuple(_text(value) for value in row) for row in table.iter_rows())
    return us.Grid(caption, tuple(table.columns), body, file)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
