"""The study of paper R: its page from made-up synthesizers, and whole on tiny files (slow)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

import understudy as us
from understudy_studies.page import rendered
from understudy_studies.risk_weights import application as risk_application
from understudy_studies.risk_weights import simulation as risk_simulation
from understudy_studies.risk_weights import sweep as risk_sweep
from understudy_studies.risk_weights.application import ApplicationDesign, measured
from understudy_studies.risk_weights.figures import interval_figure, median_intervals
from understudy_studies.risk_weights.incomes import consumer_incomes, generated_incomes
from understudy_studies.risk_weights.run import RiskDesign, run_study
from understudy_studies.risk_weights.simulation import SimulationDesign, simulated_counts
from understudy_studies.risk_weights.sweep import frontier
from understudy_studies.risk_weights.tables import (
    APPLICATION_ECDF,
    SIMULATION_ECDF,
    TABLE_6,
    by_synthesizer,
    income_facts,
)

TINY = ApplicationDesign(n=240, components=2, predictors="gender + age", datasets=3)
COUNTS = SimulationDesign(n=150, radii=(0.1, 0.3), sweeps=1)
DESIGN = RiskDesign(COUNTS, TINY)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Synthesizers without a fit: resampled values, blurred more where weights are smaller."""
    calls: list[str] = []

    def counts(_: Any, y: np.ndarray, seed: int) -> dict[str, list[np.ndarray]]:
        calls.append("counts")
        rng = np.random.default_rng(seed)
        controls = (risk_simulation.CONSTANT_PAIRWISE, risk_simulation.CONSTANT_MARGINAL)
        names = [*SIMULATION_ECDF["synthesizer"], risk_simulation.AGAIN, *controls]
        return {
            name: [np.rint(rng.choice(y, len(y)) * rng.normal(1, 0.02 * k, len(y)))
                   for _ in range(30)]
            for k, name in enumerate(names)
        }  # fmt: skip

    def swept(
        _: Any, y: np.ndarray, seed: int, mechanisms: Any, count: int
    ) -> dict[str, list[np.ndarray]]:
        calls.append("sweep")
        rng = np.random.default_rng(seed)
        return {name: [rng.choice(y, len(y)) for _ in range(count)] for name in mechanisms(None)}

    def synthesized(
        _: Any, model: us.Mixture, survey: us.Survey, seed: int, name: str, mechanism: us.Mechanism
    ) -> dict[str, Any]:
        assert isinstance(model, us.Mixture)
        calls.append(f"{name}, {type(mechanism).__name__}, {seed}")
        rng = np.random.default_rng(len(calls))
        y = survey.frame()["income"].to_numpy()
        sets = [rng.choice(y, len(y)) * rng.normal(1, 0.05, len(y)) for _ in range(3)]
        line = {"quantity": "F(0)", "chains apart": 0.001, "R-hat": 1.002, "bulk ESS": 512.0,
                "error short by": 0.01}  # fmt: skip
        judged = {"quantities": [line], "failures": [], "misses": [], "chains": 2,
                  "draws": 10, "thinning": 1, "divergences": 0}  # fmt: skip
        weights = np.full(len(y), 0.4).tolist()
        return {"name": name, **measured(survey, sets, 1), "weights": weights,
                "seconds": 1.0, "cpu seconds": 2.0, "convergence": judged}  # fmt: skip

    # weights are made up too, so that no density need be compiled
    monkeypatch.setattr(us.ModelFitter, "present", property(lambda f: np.ones(f.n, dtype=bool)))
    monkeypatch.setattr(risk_simulation, "synthetic_counts", counts)
    monkeypatch.setattr(risk_sweep, "synthetic_counts", swept)
    monkeypatch.setattr(risk_application, "synthesized", synthesized)
    return calls


def test_every_table_and_figure_is_written_and_a_second_run_computes_nothing(
    made_up: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the page needs the drawings; pictures for print are `save_figure`'s own business
    monkeypatch.setattr(
        us, "save_figure", lambda figure, path: figure.savefig(path.with_suffix(".svg"))
    )
    page = run_study(2, tmp_path, design=DESIGN)
    computed = len(made_up)
    text = page.read_text(encoding="utf-8")
    assert "noise" in text
    assert "at most 0.0010 apart in F" in text
    assert text.count("<img") == 19
    assert "four-way weights, and" in text
    frontier = pl.read_csv(tmp_path / "frontier.csv")
    assert set(frontier["synthesizer"]) == {"Synthesizer", "Marginal", "Pairwise", "Constant"}
    table = pl.read_csv(tmp_path / "simulation-table-5.csv")
    published = dict(
        table.filter(pl.col("measure") == "U_m").select("synthesizer", "published").iter_rows()
    )
    assert published["Pairwise r=15%"] == 0.0378
    assert (table["5 %"] <= table["median"]).all()
    risk = pl.read_csv(tmp_path / "application-risk.csv")
    controls = {risk_simulation.AGAIN, risk_simulation.CONSTANT_PAIRWISE}
    assert controls <= set(risk["synthesizer"])
    six = pl.read_csv(tmp_path / "simulation-table-6.csv")
    assert six.height == 2 * len(TABLE_6)
    monkeypatch.setattr(us, "save_figure", lambda *_: None)  # they lie there already
    assert run_study(2, tmp_path, design=DESIGN) == page
    assert len(made_up) == computed
    with pytest.raises(us.Refused, match="another"):
        run_study(2, tmp_path, seed=2, design=DESIGN)


def test_intervals_of_counts_have_the_lines_of_the_data() -> None:
    limits = {"estimate": [99.0, 101.0, 106.0], "lower": [1.0, 2.0, 3.0], "upper": [7.0, 8.0, 9.0]}
    data = pl.concat(
        pl.DataFrame({"name": "Data", "statistic": [name] * 3, **limits})
        for name in ("mean", "median")
    )
    columns = {f"{name} {part}": values for name in ("mean", "median")
               for part, values in limits.items()}  # fmt: skip
    rows = pl.DataFrame({"name": ["Marginal r=15%"] * 3, "replicate": [0, 1, 2], **columns})
    intervals = median_intervals(data, rows, ["Marginal r=15%"])
    assert intervals["synthesizer"].to_list() == ["Data"] * 2 + ["Marginal r=15%"] * 2
    for row in intervals.iter_rows(named=True):
        assert (row["estimate"], row["lower"], row["upper"]) == (101.0, 2.0, 8.0)
    axis = interval_figure(intervals, 2).axes[0]
    flat = {line.get_ydata()[0] for line in axis.lines if line.get_xdata()[0] == 0
            and len(set(line.get_ydata())) == 1}  # fmt: skip
    assert {101.0, 2.0, 8.0} <= flat


def test_words_claim_nothing_that_the_controls_do_not_bear_out() -> None:
    names = (risk_simulation.SYNTHESIZER, risk_simulation.AGAIN, risk_application.MARGINAL,
             risk_application.PAIRWISE, risk_simulation.CONSTANT_MARGINAL,
             risk_simulation.CONSTANT_PAIRWISE)  # fmt: skip

    def said(top: tuple[float, ...], rising: tuple[int | None, ...], failed: int = 0) -> str:
        ecdf = pl.DataFrame({"synthesizer": names, "U_m": (0.01, 0.02, 0.07, 0.03, 0.05, 0.03)})
        columns = {"synthesizer": names, "riskiest 1 %": top, "rising by 0.25": rising}
        risk = pl.DataFrame(columns, strict=False)
        facts = {"incomes": income_facts(ecdf, risk), "real": True, "failed": failed,
                 "fits": [{}] * 6, "apart": 0.015}  # fmt: skip
        template = Path(risk_application.__file__).parent / "incomes.md.j2"
        return " ".join(rendered(template, facts).split())

    noise = said((0.078, 0.092, 0.046, 0.046, 0.045, 0.052), (None, 1, 5, 0, 1, 1))
    assert "both protect them better" in noise
    assert "do not show that looking at risk" in noise
    assert "That is noise" in noise
    little = said((0.108, 0.089, 0.027, 0.045, 0.048, 0.038), (None, 76, 44, 44, 36, 46))
    assert "do not show that looking at risk" in little  # .021 gained, two runs .019 apart
    effect = said((0.13, 0.14, 0.03, 0.04, 0.08, 0.09), (None, 100, 20, 15, 60, 60))
    assert "looking at risk buys something" in effect
    assert "Marginal and Pairwise lie also below a constant weight" in effect
    like_constant = said((0.13, 0.14, 0.03, 0.04, 0.08, 0.09), (None, 83, 42, 41, 45, 40), 2)
    assert "not looking at risk" in like_constant
    assert "order does not hang on it" in like_constant  # U_m .02 apart, chains .015
    close = said((0.08, 0.12, 0.07, 0.07, 0.07, 0.07), (None, 10, 60, 12, 9, 9))
    assert "not clearly better for both" in close
    assert "Marginal lies above the control" in close


def test_simulated_counts_are_the_two_component_mixture() -> None:
    y = simulated_counts(120_000, np.random.default_rng(1))
    grid = np.arange(0, 500)
    pmf = sum(w * scipy.stats.nbinom.pmf(grid, phi, phi / (phi + 100)) for w, phi in
              ((0.7, 20), (0.3, 5)))  # fmt: skip
    cdf = np.cumsum(pmf)
    shares = np.searchsorted(np.sort(y), grid, side="right") / len(y)
    assert np.abs(shares - cdf).max() < 2.7 / np.sqrt(len(y))  # Kolmogorov, 1e-6


def test_generated_incomes_have_the_published_shape() -> None:
    y = generated_incomes(6208).frame()["income"].to_numpy()
    assert 40_000 < np.median(y) < 60_000  # R Table 4: 50,225
    assert 200_000 < np.quantile(y, 0.975) < 340_000  # R Table 1: about 270,000
    assert (y < 0).any()
    assert (y == 0).any()


def test_consumer_incomes_are_each_unit_once(shared_data: Path) -> None:
    survey = consumer_incomes(shared_data / "ce_half_a.parquet")
    frame = survey.frame()
    assert 5500 < frame.height < 6500  # R: 6,208
    assert frame.select("gender", "age", "region").n_unique() == 40  # R §2.3
    assert set(APPLICATION_ECDF["synthesizer"]) >= {"Synthesizer", "Marginal", "Pairwise"}


def test_predictors_are_those_of_the_papers_table_1(shared_data: Path) -> None:
    """R Table 1: education in 8 classes, family size in 11; none is cut or a number."""
    real = consumer_incomes(shared_data / "ce_half_a.parquet").frame()
    made = generated_incomes(6208).frame()
    for frame in (real, made):
        assert frame["education"].n_unique() == 8
        assert {frame[name].dtype for name in ("education", "family_size")} == {pl.String}
        assert frame["age"].n_unique() == 5
    assert real["family_size"].n_unique() == 11


def test_a_setting_is_on_the_frontier_where_no_other_beats_it() -> None:
    rng = np.random.default_rng(0)
    names = ["Synthesizer"] * 3 + ["Marginal"] * 6 + ["Constant"] * 6
    setting = [0.0, 1.0, 2.0, *np.arange(12.0)]
    measures = ("U_m", "U_a", "mean risk", "riskiest")
    columns = {name: rng.integers(0, 5, 15) / 5 for name in measures}  # with ties
    rows = pl.DataFrame({"synthesizer": names, "setting": setting, **columns})
    table = frontier(pl.concat([rows, rows.with_columns(pl.col(measures) + 0.5)]))
    assert table.height == 13  # the unweighted runs are one
    for line in table.iter_rows(named=True):
        beaten = [
            other
            for other in table.iter_rows(named=True)
            if other["U_m"] <= line["U_m"]
            and other["riskiest"] <= line["riskiest"]
            and (other["U_m"], other["riskiest"]) != (line["U_m"], line["riskiest"])
        ]
        assert line["on the frontier"] == (not beaten)
    mean = rows.filter(synthesizer="Synthesizer")["U_m"].mean()
    assert table["U_m"][0] == pytest.approx(mean + 0.25)  # type: ignore[operator]


@pytest.mark.slow
def test_the_whole_study_on_tiny_files(tmp_path: Path) -> None:
    page = run_study(1, tmp_path, quick=True)
    assert page.exists()
    risk = pl.read_csv(tmp_path / "application-risk.csv")
    data, made = (risk.filter(pl.col("synthesizer") == n)["mean"][0] for n in
                  ("Data", "Synthesizer"))  # fmt: skip
    assert made < data


def test_a_table_has_one_line_for_each_synthesizer() -> None:
    table = pl.DataFrame(
        {"synthesizer": ["S", "S", "M"], "measure": ["U_m", "rising", "U_m"],
         "published": [0.0451, None, None], "median": [0.04995, 17.5, 0.11],
         "5 %": [0.03975, 12.95, 0.1], "95 %": [0.05764, 25.0, 0.12]}
    )  # fmt: skip
    grid = by_synthesizer("caption", table, "file.csv")
    assert grid.header == ("synthesizer", "U_m", "published", "rise by 0.2", "published")
    assert grid.rows == (
        ("S", "0.050 [0.040, 0.058]", "0.0451", "17.5 [12.9, 25.0]", "–"),
        ("M", "0.110 [0.100, 0.120]", "–", "–", "–"),
    )
