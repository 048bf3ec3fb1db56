"""MODIPS at census scale: N = 1,857,505 records, about 300,000 cells, 5 data sets.

In one run of one process, each figure with its limit:
- one replicate of the study (tabulate the records, noise, 5 sets as cell counts) against a bare
  NumPy Dirichlet and multinomial of the same size (at most 3). The noise is the study's; the same
  with OpenDP's noise stands beside it and cannot be within 3 (docs/decisions/011);
- writing 5 data sets as Parquet against writing the input five times (at most 3);
- the peak memory of the process (at most 2 GB);
- a replicate of the study at 11 epsilons and both relations, times 20 (at most 20 minutes);
- Marginals at epsilon 1 on twelve of the variables: mean total variation over all 66 pairs (at
  most .01) in at most 300 s, with MODIPS (m = 5) beside it.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from understudy.mechanisms.marginals import Marginals, marginal_counts
from understudy.mechanisms.modips import Modips
from understudy.models.multinomial import Multinomial
from understudy.survey.acs_pums import VARIABLES, acs_codebook
from understudy.survey.codebook import Codebook
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.synthesis import synthesize
from understudy.tables.cross_table import CrossTable, categories_of, cross_tabulate
from understudy_studies.acs_modips.population import (
    TWELVE,
    acs_categories,
    invented_tables,
    margin_of,
    population,
)
from understudy_studies.acs_modips.replicate import DATASETS, methods, one_replicate, synthetic_sets


def best(run: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    """Least wall time and least CPU time of all threads."""
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def bare(counts: np.ndarray, size: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(DATASETS):
        gammas = rng.standard_gamma(counts + 0.5)
        rng.multinomial(size, gammas / gammas.sum())


def tabulated(survey: Survey) -> CrossTable:
    return cross_tabulate(survey, categories_of(survey, VARIABLES))


def total_variation(a: CrossTable, b: CrossTable) -> float:
    pairs = Marginals(1.0).columns(len(a.categories.columns))
    tables = zip(marginal_counts(a, pairs), marginal_counts(b, pairs), strict=True)
    return float(np.mean([0.5 * np.abs(x / a.n - y / b.n).sum() for x, y in tables]))


def missed_limit(text: str, value: float, limit: float) -> list[str]:
    """Print a figure beside its limit; what is missed is given back."""
    print(f"{text}: {value:.4g}, limit {limit:g}", flush=True)
    return [text] if value > limit else []


def replicate(survey: Survey, table: CrossTable) -> list[str]:
    """The study's replicate and its parts, the same with OpenDP's noise, and the whole study."""
    scale = Modips(1.0).scale(DATASETS)

    def ours() -> None:
        synthetic_sets(tabulated(survey).counts, scale, np.random.default_rng(1))

    plain, plain_cpu = best(lambda: bare(table.counts, table.n))
    whole, whole_cpu = best(ours)
    tabulate, tabulate_cpu = best(lambda: tabulated(survey))
    sets, sets_cpu = best(lambda: synthetic_sets(table.counts, scale, np.random.default_rng(1)))
    print(f"N = {table.n:,}, K = {table.cells:,}; wall s (CPU s)")
    for name, wall, cpu in (
        ("bare Dirichlet and multinomial, 5 sets", plain, plain_cpu),
        ("tabulate", tabulate, tabulate_cpu),
        ("the study's noise, clip, Dirichlet, multinomial, 5 sets", sets, sets_cpu),
        ("replicate", whole, whole_cpu),
    ):
        print(f"  {name}: {wall:.3f} ({cpu:.3f})")
    missed = missed_limit("a replicate over the bare draws, wall", whole / plain, 3)
    print(f"  the same in CPU time: {whole_cpu / plain_cpu:.2f}")
    mechanism = Modips(1.0)
    noise, noise_cpu = best(
        lambda: [mechanism.noisy(table.counts, DATASETS) for _ in range(DATASETS)], 1
    )
    print(
        f"  with OpenDP's noise: {noise + whole:.1f} ({noise_cpu + whole_cpu:.1f}), ratio "
        f"{(noise + whole) / plain:.0f} by decision 011"
    )
    _, cell = np.unique(table.counts, return_inverse=True)
    study, _ = best(
        lambda: one_replicate(table.counts, cell, methods(), np.random.default_rng(1)), 1
    )
    return missed + missed_limit("minutes of a study of 20 replicates", 20 * study / 60, 20)


def writing(survey: Survey, path: Path) -> list[str]:
    """5 data sets of a release as Parquet, against writing the input as often."""
    frame = pl.read_parquet(path)
    once, _ = best(lambda: frame.write_parquet(path.with_name("copy.parquet")))
    start = time.perf_counter()
    result = synthesize(survey, Multinomial(VARIABLES), Modips(10.0), DATASETS)
    print(f"a release of 5 files with OpenDP's noise: {time.perf_counter() - start:.1f} s")

    def write() -> None:
        for number, synthetic in enumerate(result.tables):
            synthetic.records().write_parquet(path.with_name(f"{number}.parquet"))

    written, _ = best(write, 3)
    print(f"  writing 5 files: {written:.2f} s, the input once {once:.2f} s")
    return missed_limit("writing 5 files over writing the input 5 times", written / (5 * once), 3)


def pairs_of_twelve(table: CrossTable, codebook: Codebook) -> list[str]:
    twelve = margin_of(table, TWELVE)
    survey = Survey(twelve.records(), codebook=codebook.only(list(TWELVE)))
    start = time.perf_counter()
    made = synthesize(survey, Multinomial(TWELVE), Marginals(1.0))
    wall = time.perf_counter() - start
    missed = missed_limit("Marginals, epsilon 1, s", wall, 300)
    distance = total_variation(twelve, made.tables[0])
    missed += missed_limit(f"Marginals ({made.claim.kind}), mean total variation", distance, 0.01)
    modips = synthesize(survey, Multinomial(TWELVE), Modips(1.0), DATASETS)
    distances = [total_variation(twelve, synthetic) for synthetic in modips.tables]
    print(f"  MODIPS ({modips.claim.kind}), m = 5, K = {twelve.cells:,}: {np.mean(distances):.4f}")
    return missed


def main() -> None:
    categories = acs_categories()
    table = population(*invented_tables(categories.sizes), categories)
    codebook = Codebook(acs_codebook().columns)  # invented records know no edit rules
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        table.records().sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path)
        survey = read_survey(str(path), codebook=codebook)
        missed = replicate(survey, table) + writing(survey, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    missed += missed_limit("peak memory so far, GB", peak, 2)
    missed += pairs_of_twelve(table, codebook)
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
