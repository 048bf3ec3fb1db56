"""Five synthetic files of categorical columns under Modips, with their records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import understudy as us
from bench.framework.case import Case, Side
from understudy.survey.codebook import Codebook, Column

LEVELS = {"sex": 2, "age": 8, "region": 6, "status": 5}
FILES = 5


class Generation(Case):
    what = "five files of four categorical columns under Modips: counts, noise, records"
    peers = {"numpy": "NumPy's counts, Dirichlet and multinomial draws and records, without noise"}
    sizes = (100_000, 500_000, 2_500_000)
    quick = (2_000, 4_000, 8_000)
    tiny = 500
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:
        import polars as pl

        rng = np.random.default_rng(1)
        frame = pl.DataFrame({name: rng.binomial(k - 1, 0.4, n) for name, k in LEVELS.items()})
        path = folder / "records.parquet"
        frame.write_parquet(path)
        columns = {
            name: Column(name, "sensitive", "categorical", levels=(*range(k),), blanks=False)
            for name, k in LEVELS.items()
        }
        survey = us.read_survey(path, codebook=Codebook(columns))
        shape = tuple(LEVELS.values())

        def ours() -> int:
            result = us.synthesize(survey, us.Multinomial(tuple(LEVELS)), us.Modips(10.0), FILES)
            return sum(made.records().height for made in result.tables)

        def bare() -> int:
            values = pl.read_parquet(path).to_numpy().T
            counts = np.bincount(np.ravel_multi_index(values, shape), minlength=int(np.prod(shape)))
            records = 0
            for _ in range(FILES):
                drawn = rng.multinomial(n, rng.dirichlet(counts + 0.5))
                cells = np.unravel_index(np.repeat(np.arange(len(drawn)), drawn), shape)
                records += pl.DataFrame(dict(zip(LEVELS, cells, strict=True))).height
            return records

        return {"ours": Side(ours), "numpy": Side(bare)}

    def check(self, ours: int, theirs: int, peer: str) -> None:  # noqa: ARG002
        assert ours == theirs
