"""public.html: what a reader of the released data needs, made from public facts alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from understudy.envelope import Envelope
from understudy.report.analysis import python_example, r_example
from understudy.report.analysis_r import read_in_r
from understudy.report.cells import NUMBERS, cell_label
from understudy.report.claim_parts import claim_parts
from understudy.report.interval_figures import MOST_ROWS, is_margin, released_figure
from understudy.report.noise_quality import noise_quality
from understudy.report.numbers import NOTHING, fixed, limits, listed, shown
from understudy.report.plain import finite, plain
from understudy.report.public_facts import PublicFacts
from understudy.report.sentences import protection
from understudy.report.templates import rendered
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables.corrected import BESIDE
from understudy.tables.statistic import Statistic
from understudy.tables.tabulate import MISSING
from understudy.version import __version__

__all__ = ["public_page", "python_example", "r_example"]

MOST_LEVELS = 12
HEAD = ("cell", "estimate", "SE", "95 % limits", "df")
CORRECTED = ("files alone", "noise SE", "share")


def public_page(
    facts: PublicFacts,
    envelope: Envelope,
    datasets: Sequence[Survey],
    table: pl.DataFrame,
    rules: str,
) -> str:
    """The page as HTML; nothing in it comes from elsewhere than its arguments. `table` is that of
    the synthetic files, `datasets`, and `rules` what the codebook's rules changed in them."""
    claim = json.loads(envelope.claim.to_json())
    mechanism = envelope.claim.mechanism or "synthesis"
    rows, count = _rows(facts, table), len(datasets)
    return rendered(
        "public.html.j2",
        title=facts.title,
        summary=[
            _what(facts, count, datasets[0].n),
            protection(claim, mechanism),
            _use(count),
        ],
        mark="",
        footer=f"Made by Understudy {__version__} from released data alone.",
        claim=claim_parts(str(envelope.claim), envelope.claim.conditions, claim),
        columns=_columns(facts),
        by=[facts.label(name) for name in facts.by],
        quality=noise_quality(envelope.draws, facts),
        rules=rules,
        tables=[_table(rows, statistic, facts) for statistic in facts.statistics],
        corrected=_corrected(facts),
        notes=list(dict.fromkeys(row["note"] for row in rows if row["note"])),
        design=[f"`{name}` ({role})" for name, role in facts.design.named.items()],
        factors=_factors(facts.codebook),
        python=python_example(facts),
        r=r_example(facts, count),
        r_package=read_in_r(facts).r_package,
        files=_files(facts, count, envelope),
    )


def _use(files: int) -> str:
    if files > 1:
        return (
            "Use the combining rule below; one file alone, or the files stacked on each other, "
            "would give wrong standard errors."
        )
    return (
        "There is only one file, so the variance that synthesis adds cannot be estimated: its "
        "standard errors are too small."
    )


def _what(facts: PublicFacts, m: int, records: int) -> str:
    files = "one synthetic file" if m == 1 else f"{m} synthetic files"
    each = " each" if m > 1 else ""
    text = f"This is a release of {files} of {records:,} records{each}. "
    if facts.all_drawn:
        return text + "All values were drawn from a model; no row stands for a real person."
    names = [f"`{name}`" for name in facts.synthesized]
    verb = "were" if len(names) > 1 else "was"
    return text + (
        f"{listed(names)} {verb} drawn from a model in place of the confidential values; the "
        "other columns are as collected."
    )


def _columns(facts: PublicFacts) -> list[tuple[str, ...]]:
    return [
        (
            column.name,
            column.label or NOTHING,
            _values(column),
            _role(column) if column.name in facts.as_collected else "synthetic",
        )
        for column in facts.codebook
    ]


def _role(column: Column) -> str:
    words = {"weight": "design weight", "stratum": "stratum", "psu": "sampling unit"}
    words |= {"replicate": "replicate weight", "fpc": "population size of the stratum"}
    return words.get(column.role, "as collected")


def _values(column: Column) -> str:
    """Levels and bounds as declared; what was only drafted from data is not shown."""
    if column.levels is not None and column.declared("levels"):
        spelled = [
            f"{level} = {column.value_labels[level]}"
            if level in column.value_labels
            else str(level)
            for level in column.levels[:MOST_LEVELS]
        ]
        more = len(column.levels) - len(spelled)
        return ", ".join(spelled) + (f", and {more} more" if more else "")
    if column.bounds is not None and column.declared("bounds"):
        return f"{column.type}, {column.bounds[0]:,.12g} to {column.bounds[1]:,.12g}"
    return column.type


def _factors(codebook: Codebook) -> dict[str, Any] | None:
    """What sampling variances are multiplied by (tables/variance_factor.py); None: by nothing."""
    clusters, effects, misfit = codebook.design_effect, codebook.design_effects, codebook.misfit
    if clusters is None and not effects and misfit is None:
        return None
    known = clusters or 1.0 if not effects else 1.0
    kinds = ("one column, or columns that were counted together", "two others", "more columns")
    rows = []
    if misfit is not None:
        for kind, count, mean in zip(kinds, misfit.counts, misfit.means, strict=True):
            rows.append((kind, fixed(known + count, 2), fixed(known + mean, 2)))
    spread = ", less in groups that are spread over the clusters" if codebook.psu_records else ""
    parts = []
    if clusters:
        parts = [
            f"the design effect of clusters, which the files lack, {fixed(clusters, 2)}{spread}"
        ]
    if effects:
        own = ", ".join(f"{name} {fixed(effect, 2)}" for name, effect in effects.items())
        parts = [
            f"the design effect of clusters, which the files lack: the largest of {own} among the "
            f"columns that an estimate is about ({fixed(clusters or 1.0, 2)} for others){spread}"
        ]
    if misfit is not None:
        parts.append(
            f"{'' if parts else '1, plus '}a figure for the distance between the fitted tables and "
            "the confidential ones, which was measured with noise on average over kinds of tables "
            "(a weight is one of the columns of an estimate that uses it; where columns were "
            "counted together, cells with many records have less of it and small ones more; it "
            "counts as a variance with 2 degrees of freedom)"
        )
    return {
        "words": "Before that, ubar is multiplied by " + ", plus ".join(parts) + ". The programs "
        "below do so"
        + (
            ", with the figures that single numbers and tables have of their own "
            "(`[misfit]` in `codebook.toml`)."
            if misfit is not None
            else "."
        ),
        "rows": rows,
    }


def _corrected(facts: PublicFacts) -> str:
    """What was done to the table, and what to make of it."""
    if not facts.corrections:
        return ""
    names = listed([f"`{text}`" for text in facts.corrected["statistics"]])
    epsilon, delta = facts.corrections["epsilon"], facts.corrections["delta"]
    noise = f"Gaussian noise, delta {delta:g}" if delta else "Laplace noise"
    return (
        f"Corrected in {names}, at epsilon {epsilon:g} of the claim above ({noise}): a noisy sum "
        "says how far each cell of the synthetic files is from the confidential one, and a share "
        "of that is added, less where the noise outweighs what the files have wrong. Margins are "
        "made of cells. Standard errors hold sampling, the noise and what is left of synthesis. "
        "What you compute from the files yourself is not corrected: compare it with `files alone`."
    )


def _table(rows: list[dict[str, Any]], statistic: Statistic, facts: PublicFacts) -> dict[str, Any]:
    """The rows of one statistic, and their figure where there is more than one."""
    mine = [row for row in rows if row["statistic"] == statistic.text]
    drawn = [row for row in mine if finite(row["released"]["estimate"]) is not None]
    if statistic.adds_up:
        drawn = [row for row in drawn if not is_margin(row["label"])] or drawn
    svg = ""
    if len(drawn) > 1:
        svg = released_figure(drawn, f"{statistic.text}, with 95 % intervals")
    return {
        "text": statistic.text,
        "svg": svg,
        "drawn": len(drawn),
        "shown": MOST_ROWS,
        "head": [*HEAD, *(CORRECTED if facts.corrections else ())],
        "rows": [(*_printed(row), *_beside(row, facts)) for row in mine],
    }


def _rows(facts: PublicFacts, table: pl.DataFrame) -> list[dict[str, Any]]:
    table = table.with_columns(pl.col(name).cast(pl.String).fill_null(MISSING) for name in facts.by)
    return [
        {
            "label": cell_label(row, facts.by, facts.codebook),
            "statistic": row["statistic"],
            "confidential": None,
            "released": plain({name: row[name] for name in (*NUMBERS, "df")}),
            "note": str(row.get("note") or ""),
            "beside": plain({name: row[name] for name in BESIDE if name in row}),
        }
        for row in table.iter_rows(named=True)
    ]


def _printed(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = row["released"]
    se, df = numbers["se"], finite(numbers["df"])
    degrees = shown(numbers["df"])
    if df is not None:
        degrees = "over 100,000" if df >= 1e5 else f"{df:,.0f}" if df >= 10 else f"{df:.2g}"
    return (
        row["label"],
        shown(numbers["estimate"], se),
        shown(se, se),
        limits(numbers),
        degrees,
    )


def _beside(row: dict[str, Any], facts: PublicFacts) -> tuple[str, ...]:
    """What a corrected table has beside: the files' own estimate, the noise, the share."""
    if not facts.corrections:
        return ()
    numbers, se = row["beside"], row["released"]["se"]
    share = finite(numbers["share"])
    return (
        shown(numbers["released"], se),
        shown(numbers["noise_se"], numbers["noise_se"]),
        NOTHING if share is None else f"{share:.2f}",
    )


def _files(facts: PublicFacts, count: int, envelope: Envelope) -> tuple[str, ...]:
    others = [f"`{file_format.written[0]}`" for file_format in facts.formats[1:]]
    beside = f", also as {listed(others)}" if others else ""
    names = facts.formats[0].released_files(count)
    span = " to ".join(f"`{name}`" for name in dict.fromkeys((names[0], names[-1])))
    files = [f"{span}: the synthetic records{beside}."]
    files.append("`tables.csv`: the table above, in full precision.")
    files.append("`codebook.toml`: what is public about each column.")
    files.append("`claim.json` and `release.json`: the claim and the design, for programs.")
    if envelope.draws:
        files.append("`draws.json`: the parameter draws that the files were made from.")
    if envelope.corrections is not None:
        files.append("`corrections.json`: the noisy sums that the table was corrected by.")
    return tuple(files)
