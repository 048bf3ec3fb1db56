"""The page of the private-tables study: words first, then T's tables and figures beside ours."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import understudy as us
from understudy_studies.private_tables import words as words

Tables = dict[str, pl.DataFrame]
METHOD = ["model", "mechanism", "epsilon", "m", "formulas"]


def write_study_page(
    out: Path, tables: Tables, drawn: list[tuple[str, str]], refused: list[str], replicates: int
) -> Path:
    """`drawn` is (file, caption) of every figure, in T's order."""
    pictures = {Path(file).stem: us.Picture(out / file, text, text) for file, text in drawn}

    def figures(*numbers: int) -> list[us.Part]:
        names = [f"figure{number:02d}" for number in numbers]
        return [pictures[name] for name in names if name in pictures]

    parts: list[us.Part] = [
        us.Heading("What is compared"),
        us.Points(words.METHODS),
        us.Heading("Coverage and error"),
        us.Words(words.COVERAGE),
        *_summary_grids(tables["summary"]),
        *figures(5),
        us.Heading("Where ours differs from T"),
        us.Points(words.DIFFERENCES),
        us.Heading("T's Tables 4 and 5 cell by cell"),
        us.Fold(
            "Counts, m = 3, bound 1.8", (_cells(tables, "table4_counts", "T Table 4: counts"),)
        ),
        us.Fold(
            "Mean salaries, m = 3, bound 1.8",
            (_cells(tables, "table5_means", "T Table 5: mean salaries"),),
        ),
        us.Heading("How much one record can weigh"),
        us.Words(words.BOUNDS),
        *figures(3),
        _bounds(tables["bounds"]),
        us.Heading("Weights"),
        us.Words(words.WEIGHTS),
        *figures(4),
        us.Fold("Synthesized and smoothed weights", tuple(figures(8, 9))),
        us.Heading("Number of files, and a larger bound"),
        *figures(6, 7),
        us.Fold("Coverage against CV", tuple(figures(*range(10, 18)))),
        _lengths(tables["interval_lengths"]),
    ]
    if "table2_counts" in tables:
        parts += [
            us.Heading("A file like T's application"),
            us.Words(words.APPLICATION),
            *figures(1, 2),
            us.Fold("Counts", (_cells(tables, "table2_counts", "T Table 2: counts"),)),
            us.Fold("Mean salaries", (_cells(tables, "table3_means", "T Table 3: mean salaries"),)),
        ]
    if refused:
        parts += [
            us.Heading("Releases that were refused"),
            us.Words("A fit that does not pass its diagnostics makes no files; these are missing."),
            us.Points(tuple(refused)),
        ]
    return us.write_page(
        out / "study.html",
        "Private tables from survey microdata",
        words.summary(tables, replicates),
        parts,
        f"Understudy {us.__version__}, `understudy study private-tables`. Paper T: Hu, Savitsky "
        "and Williams, Private Tabular Survey Data Products through Synthetic Microdata "
        "Generation.",
    )


def _summary_grids(table: pl.DataFrame) -> list[us.Part]:
    """Counts and means: three files and the bound 1.8 in sight, everything else in a fold."""
    parts: list[us.Part] = []
    for statistic, name in words.NAMES.items():
        rows = table.filter(pl.col("statistic") == statistic)
        main = pl.col("m").is_in([1, 3]) & ~(
            (pl.col("m") == 1) & (pl.col("model").is_in(["FBS", "FBP"]))
        )
        shown = rows.filter(main & (pl.col("epsilon") < 11))
        rest = rows.join(shown, on=METHOD, how="anti", maintain_order="left")
        parts.append(_methods(shown, f"{name.capitalize()}, three files", "summary.csv"))
        if rest.height:
            parts.append(
                us.Fold(
                    f"{name.capitalize()}: other numbers of files and bounds",
                    (_methods(rest, f"{name.capitalize()}, all others", "summary.csv"),),
                )
            )
    return parts


def _methods(table: pl.DataFrame, caption: str, file: str) -> us.Grid:
    rows = tuple(
        (
            _label(row),
            f"{row['epsilon']:g}" if row["epsilon"] else "–",
            _pm(row["coverage_16"], row["coverage_16_error"]),
            _pm(row["rmse_ratio_16"], row["rmse_ratio_16_error"], 2),
            f"{row['median_ratio_with_se_16']:.2f}",
            _pm(row["coverage_fields"], row["coverage_fields_error"]),
            f"{row['length_16']:,.0f}",
        )
        for row in table.iter_rows(named=True)
    )
    header = ("", "ε", "coverage, cells", "RMSE ratio", "with se", "coverage, fields", "length")
    return us.Grid(caption, header, rows, file)


def _label(row: dict[str, object]) -> str:
    if row["model"] == "Sample":
        return "Sample itself" + (", file order" if "file order" in str(row["mechanism"]) else "")
    mechanism = str(row["mechanism"]).replace(" drifted", ", drifted")
    for epsilon in ("10.8", "3", "1"):
        mechanism = mechanism.replace(f"ReferenceCensored {epsilon}", "ReferenceCensored")
    name = str(row["model"]) if row["model"] == mechanism else f"{row['model']} {mechanism}"
    files = "" if row["m"] == 3 or row["model"] == "Laplace" else f", {row['m']} files"
    return f"{name}, {row['formulas']}{files}"


def _pm(value: float, error: float | None, digits: int = 3) -> str:
    text = f"{value:.{digits}f}"
    return text if error is None else f"{text} ± {error:.{digits}f}"


def _cells(tables: Tables, name: str, caption: str) -> us.Grid:
    """T's columns first, then ours, by field and gender."""
    table = tables[name]
    columns = [column for column in table.columns if column not in ("field", "gender")]
    header = ("", *(_title(column) for column in columns))
    rows = tuple(
        (
            f"Field {row['field']}, {row['gender']}".replace("Field All", "All fields"),
            *(_number(row[column]) for column in columns),
        )
        for row in table.iter_rows(named=True)
    )
    return us.Grid(f"{caption}. T's columns first, then ours.", header, rows, f"{name}.csv")


def _title(column: str) -> str:
    who = "ours: " if column.startswith("our_") else ""
    return who + column.removeprefix("our_").replace("_", " ").replace(" est", "")


def _bounds(table: pl.DataFrame) -> us.Grid:
    columns = ("mean", "least", "largest", "T")
    rows = tuple(
        (row["fit"], *(f"{row[column]:.2f}" for column in columns))
        for row in table.iter_rows(named=True)
    )
    return us.Grid("Overall bounds over the samples", ("", *columns), rows, "bounds.csv")


def _lengths(table: pl.DataFrame) -> us.Grid:
    """By the paper's formulas, which T's captions are about."""
    paper = table.filter(pl.col("formulas") == "paper")
    rows = []
    for (m, epsilon), part in paper.group_by("m", "epsilon", maintain_order=True):
        found = {row["statistic"]: row for row in part.iter_rows(named=True)}
        pairs = [(found[name]["ours"], found[name]["T"]) for name in words.NAMES]
        name = f"m = {m}, bound {epsilon / (2 * m):g}"
        rows.append((name, *(f"{value:.2f}" for pair in pairs for value in pair)))
    header = ("", "counts, ours", "T", "means, ours", "T")
    caption = "Length of FBP's intervals over FBS's, paper's formulas (captions of Figures 10-17)"
    return us.Grid(caption, header, tuple(rows), "interval_lengths.csv")


def _number(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
