"""`understudy risk`: how well an intruder could find each record, before and after synthesis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from understudy.risk.assessment import RiskAssessment


def risk(
    confidential: Annotated[Path, typer.Argument(help="The confidential file (Parquet or CSV).")],
    synthetic: Annotated[
        list[Path] | None,
        typer.Argument(help="The synthetic data sets of one synthesizer; none: the data alone."),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            help="Variables that the intruder knows, as a,b; repeat for another intruder."
        ),
    ] = None,
    target: Annotated[str, typer.Option(help="Sensitive variable, or several as a,b.")] = "",
    radius: Annotated[
        float, typer.Option(help="A value is close within this share of the true one.")
    ] = 0.2,
    absolute: Annotated[
        bool, typer.Option("--absolute", help="The radius is a distance, not a share.")
    ] = False,
    by_id: Annotated[
        str | None, typer.Option(help="Column that identifies a record; else rows go by order.")
    ] = None,
    implicates: Annotated[
        str,
        typer.Option(help="The confidential file's column of implicates: risks are averaged."),
    ] = "",
    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="A data set of another synthesizer to compare with; repeat for more."),
    ] = None,
    topcode: Annotated[
        float | None, typer.Option(help="Compare with topcoding this share of records, say 0.06.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Report the share of records above it.")] = 0.5,
    rise: Annotated[
        float, typer.Option(help="Rise over the baseline that counts as whack-a-mole.")
    ] = 0.25,
    measure: Annotated[
        str, typer.Option(help="Risk measure by name, or one of your own as mine.py:Mine.")
    ] = "identification",
    out: Annotated[Path, typer.Option(help="Folder for tables and figures.")] = Path("risk"),
) -> None:
    """Risk of every record, by default identification risk: a table, figures and CSV files.

    Everything is computed from the confidential data: for the internal report only.

    Rows correspond by order, or by an id. Files of a release are sorted, so that no row tells whose
    it was: their risk is measured before, and stands in the report of the release.

    Example: understudy risk ce.parquet drawn/*.parquet --known sex,age,region
    --target income --radius 0.2 --out risk
    """
    from rich.console import Console

    from understudy.cli.internal_output import names_in
    from understudy.risk.assessment import assess_risk
    from understudy.risk.measure import measure_of
    from understudy.survey.implicates import implicates as split
    from understudy.survey.read import read_survey

    chosen = measure_of(measure)
    survey = read_survey(confidential)
    with Console(stderr=True).status("Computing risks"):
        assessment = assess_risk(
            split(survey, implicates) if implicates else survey,
            [read_survey(path) for path in synthetic or []],
            known=[names_in(text) for text in known or [""]],
            target=names_in(target),
            radius=radius,
            kind="absolute" if absolute else "relative",
            by_id=by_id,
            baseline=[read_survey(path) for path in baseline or []],
            topcode=topcode,
            threshold=threshold,
            rise=rise,
            measure=chosen,
        )
    size = f"{radius:g}" if absolute else f"{100 * radius:g} %"
    close = f"values within {size} of the true {target} are close"
    _show(assessment, chosen.title, close, threshold, out)


def _show(assessment: RiskAssessment, title: str, ball: str, threshold: float, out: Path) -> None:
    import polars as pl

    from understudy.cli.internal_output import show_internal, write_internal
    from understudy.risk.figure import distribution_figure, whack_a_mole_figure

    def named(known: tuple[str, ...]) -> str:
        return ", ".join(known) or "nothing"

    panels = {
        f"Known: {named(known)}" if known else "No variable known": files
        for known, files in assessment.risks.items()
    }
    figures: dict[str, Any] = {"risk": distribution_figure(panels, ball)}
    tables = {"profile": assessment.profile, "top10": assessment.top10}
    if assessment.contributions is not None:
        tables["contributions"] = assessment.contributions
    if assessment.moles is not None:
        tables["whack_a_mole"] = assessment.moles.records
        pair = assessment.main["Baseline"], assessment.main["Synthetic"]
        figures["whack_a_mole"] = whack_a_mole_figure(
            *pair, assessment.moles, ("baseline", "synthetic")
        )
    by_record = {
        f"{release}, known {named(known)}": values
        for known, files in assessment.risks.items()
        for release, values in files.items()
    }
    tables["records"] = pl.DataFrame(by_record).with_row_index("record")
    written = write_internal(out, tables, figures)

    show_internal(
        f"{title}; {ball}",
        assessment.profile.rename({"share_above": f"above {threshold:g}"}),
    )
    show_internal("The ten riskiest confidential records", assessment.top10)
    if assessment.contributions is not None:
        show_internal("What each known variable adds to the mean risk", assessment.contributions)
    for note in assessment.notes:
        typer.echo(note)
    typer.echo(f"Written to {out}: {', '.join(path.name for path in written)}")
