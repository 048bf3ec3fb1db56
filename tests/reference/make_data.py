"""Make the small survey files that the reference numbers of R survey are computed from.

    python tests/reference/make_data.py                  writes tests/reference/data/*.csv
    python tests/reference/make_data.py --extract DIR    copies the columns that
        scripts/reference.R reads from the public survey files (../shared/data) to DIR as CSV

The files are committed, so the tests run neither this script nor R. Every number is rounded
before it is written: R and the tests read the same decimals.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared" / "data"
SEED = 20240501
LEVELS = np.array(["high", "low", "mid"])

PUBLIC = {
    "apistrat": "apistrat.csv",
    "apiclus1": "apiclus1.csv",
    "apiclus2": "apiclus2.csv",
    "hospital": "survey_hospital.csv",
    "fpc": "survey_fpc.csv",
    "nhanes2": "nhanes2_samplics.csv",
    "namcs": "namcs2019_surveytable.csv",
    "nhanes2brr": "nhanes2brr_samplics.parquet",
    "acs_hi": "acs2018_person_hi.parquet",
}
WANTED = {
    "namcs": ["CPSUM", "CSTRATM", "PATWT", "AGER", "SEX", "AGE", "NUMMED", "MSA"],
    "nhanes2brr": ["finalwgt", "weight", "height", "female", "region", "age", "zinc"]
    + [f"brr_{r}" for r in range(1, 33)],
    "acs_hi": ["PWGTP", "AGEP", "SEX", "PINCP", "WAGP"] + [f"PWGTP{r}" for r in range(1, 81)],
}


def paley(q: int) -> np.ndarray:
    """Hadamard matrix of order q + 1 for a prime q = 3 mod 4, first row and column all ones."""
    squares = {i * i % q for i in range(1, q)}
    chi = np.array([0] + [1 if i in squares else -1 for i in range(1, q)])
    jacobsthal = chi[(np.arange(q)[:, None] - np.arange(q)[None, :]) % q]
    matrix = np.ones((q + 1, q + 1), dtype=int)
    matrix[1:, 1:] = jacobsthal - np.eye(q, dtype=int)
    if not (matrix @ matrix.T == (q + 1) * np.eye(q + 1)).all():
        raise ValueError("not a Hadamard matrix")
    return matrix


def outcomes(
    rng: np.random.Generator, stratum: np.ndarray, cluster: np.ndarray
) -> dict[str, np.ndarray]:
    """y, z (both with missing values), x, t (many ties), a (3 texts) and b (1, 2).

    Level "high" of `a` is absent from odd strata, so some by-cells are empty in some strata.
    """
    n = len(stratum)
    cluster_effect = rng.normal(0, 4, cluster.max() + 1)[cluster]
    x = np.round(15 + rng.gamma(3, 12, n) + 0.5 * cluster_effect, 1).clip(5)
    y = np.round(20 + 0.6 * x + 3 * stratum + cluster_effect + rng.normal(0, 8, n), 2)
    chance = 1 / (1 + np.exp(-(x - 50) / 25 - 0.1 * cluster_effect))
    z = (rng.random(n) < chance).astype(float)
    t = 5 * np.round((10 + 0.4 * x + cluster_effect + rng.normal(0, 6, n)) / 5)
    shares = np.where((stratum % 2 == 1)[:, None], [0.0, 0.55, 0.45], [0.4, 0.3, 0.3])
    a = LEVELS[(rng.random(n)[:, None] > shares.cumsum(axis=1)).sum(axis=1)]
    b = 1 + (rng.random(n) < 0.45).astype(int)
    y[rng.random(n) < 0.08] = np.nan
    z[rng.random(n) < 0.06] = np.nan
    return {"y": y, "z": z, "x": x, "t": t, "a": a, "b": b}


def stratified(rng: np.random.Generator) -> pl.DataFrame:
    """240 records in six strata; unequal weights; the last stratum is a census (n_h = N_h)."""
    sizes = np.array([60, 50, 45, 40, 30, 15])
    stratum = np.repeat(np.arange(6), sizes)
    population = np.array([900, 410, 230, 1200, 95, 15])
    base = population[stratum] / sizes[stratum]
    weight = np.where(stratum == 5, 1.0, np.round(base * rng.uniform(0.6, 1.6, 240), 3))
    return pl.DataFrame(
        {
            "h": np.array(list("abcdef"))[stratum],
            "w": weight,
            "N_h": population[stratum],
            "f_h": (sizes / population)[stratum],
            "N": np.full(240, population.sum()),
            **outcomes(rng, stratum, np.arange(240)),
        }
    )


def clustered(rng: np.random.Generator) -> pl.DataFrame:
    """24 PSUs in six strata; `psu` starts at 1 in every stratum, `cluster` is unique."""
    per_stratum = np.array([3, 4, 5, 4, 3, 5])
    psu_population = np.array([20, 16, 40, 9, 12, 25])
    psu_stratum = np.repeat(np.arange(6), per_stratum)
    psu_number = np.concatenate([np.arange(1, k + 1) for k in per_stratum])
    members = rng.integers(8, 17, 24)
    cluster = np.repeat(np.arange(24), members)
    stratum = psu_stratum[cluster]
    weight = np.round((psu_population / per_stratum)[stratum] * rng.uniform(2, 9, len(cluster)), 3)
    return pl.DataFrame(
        {
            "h": stratum + 1,
            "psu": psu_number[cluster],
            "cluster": 101 + cluster,
            "w": weight,
            "N_psu": psu_population[stratum],
            "f_psu": (per_stratum / psu_population)[stratum],
            "N_all": np.full(len(cluster), psu_population.sum()),
            **outcomes(rng, stratum, cluster),
        }
    )


def two_stage(rng: np.random.Generator) -> pl.DataFrame:
    """Three strata, PSUs by simple random sampling, then households; 1-3 persons in each."""
    sampled, population = np.array([5, 6, 4]), np.array([14, 30, 8])
    rows = []
    for h in range(3):
        for c in range(sampled[h]):
            households = rng.integers(15, 40)
            taken = rng.integers(4, 8)
            weight = round(population[h] / sampled[h] * households / taken, 4)
            for s in range(taken):
                rows += [(h, 10 * (h + 1) + c, s + 1, population[h], households, weight)] * int(
                    rng.integers(1, 4)
                )
    h, psu, ssu, first, second, weight = map(np.array, zip(*rows, strict=True))
    cluster = np.unique(psu, return_inverse=True)[1]
    return pl.DataFrame(
        {
            "h": h + 1,
            "psu": psu,
            "ssu": ssu,
            "M1": first,
            "M2": second,
            "w": weight,
            **outcomes(rng, h, cluster),
        }
    )


def lonely(rng: np.random.Generator) -> pl.DataFrame:
    """Seven strata; two have one sampled PSU of several, one is a PSU of one (certainty)."""
    per_stratum = np.array([4, 1, 3, 2, 1, 3, 1])
    psu_population = np.array([12, 5, 9, 6, 3, 20, 1])
    psu_stratum = np.repeat(np.arange(7), per_stratum)
    cluster = np.repeat(np.arange(15), rng.integers(8, 15, 15))
    stratum = psu_stratum[cluster]
    weight = np.round((psu_population / per_stratum)[stratum] * rng.uniform(2, 6, len(cluster)), 3)
    return pl.DataFrame(
        {
            "h": stratum + 1,
            "psu": 1 + cluster,
            "w": weight,
            "N_psu": psu_population[stratum],
            **outcomes(rng, stratum, cluster),
        }
    )


def pairs(rng: np.random.Generator) -> pl.DataFrame:
    """Eleven strata of two PSUs, with 12 BRR and 12 Fay (0.3) replicates by a Paley matrix."""
    cluster = np.repeat(np.arange(22), rng.integers(5, 9, 22))
    stratum, first = cluster // 2, cluster % 2 == 0
    weight = np.round(rng.uniform(8, 60, len(cluster)), 2)
    signs = paley(11)[1:][stratum] * np.where(first, 1, -1)[:, None]
    return pl.DataFrame(
        {
            "h": stratum + 1,
            "psu": np.where(first, 1, 2),
            "w": weight,
            **outcomes(rng, stratum, cluster),
            **columns("brr", weight[:, None] * (1 + signs)),
            **columns("fay", weight[:, None] * (1 + 0.7 * signs)),
        }
    )


def jackknife(rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """16 PSUs in strata of 3, 4, 4 and 5 with JKn, JK1 (strata ignored) and bootstrap weights.

    The second frame holds the JKn coefficients (n_h - 1)/n_h, one per replicate.
    """
    per_stratum = np.array([3, 4, 4, 5])
    psu_stratum = np.repeat(np.arange(4), per_stratum)
    cluster = np.repeat(np.arange(16), rng.integers(9, 15, 16))
    stratum = psu_stratum[cluster]
    weight = np.round(rng.uniform(8, 60, len(cluster)), 2)
    n_h = per_stratum[psu_stratum]
    same = psu_stratum[:, None] == psu_stratum[None, :]
    jkn = np.where(same, (n_h / (n_h - 1))[None, :], 1.0)
    np.fill_diagonal(jkn, 0)
    jk1 = np.full((16, 16), 16 / 15)
    np.fill_diagonal(jk1, 0)
    boot = np.empty((16, 24))
    for h, k in enumerate(per_stratum):
        draws = rng.multinomial(k - 1, np.full(k, 1 / k), size=24).T
        boot[psu_stratum == h] = k / (k - 1) * draws
    frame = pl.DataFrame(
        {
            "h": stratum + 1,
            "psu": 1 + cluster,
            "w": weight,
            "N_psu": np.array([9, 30, 12, 11])[stratum],
            "N_all": np.full(len(cluster), 62),
            **outcomes(rng, stratum, cluster),
            **columns("jkn", weight[:, None] * jkn[cluster]),
            **columns("jk1_", weight[:, None] * jk1[cluster]),
            **columns("boot", weight[:, None] * boot[cluster]),
        }
    )
    coefficients = pl.DataFrame({"replicate": np.arange(1, 17), "coefficient": (n_h - 1) / n_h})
    return frame, coefficients


def successive(rng: np.random.Generator) -> pl.DataFrame:
    """150 records in selection order with 20 successive-difference replicates.

    Factor 1 + 2^(-3/2) (a_ir - a_jr), rows i, j = i + 1 of a Hadamard matrix of order 20.
    """
    n = 150
    matrix = paley(19)
    row = np.arange(n) % 18
    factor = 1 + 2**-1.5 * (matrix[1 + row] - matrix[2 + row])
    weight = np.round(rng.uniform(30, 200, n), 1)
    return pl.DataFrame(
        {
            "w": weight,
            **outcomes(rng, np.arange(n) % 4, np.arange(n)),
            **columns("sdr", weight[:, None] * factor),
        }
    )


def zero_weights(rng: np.random.Generator) -> pl.DataFrame:
    """`clustered` with weight 0 for a fifth of the records and for two whole PSUs (persons who
    were interviewed and not examined, say): they stay in the design and have no part in sums."""
    frame = clustered(rng)
    zero = (rng.random(frame.height) < 0.2) | frame["cluster"].is_in([103, 115]).to_numpy()
    return frame.with_columns(w=pl.when(pl.Series(zero)).then(0.0).otherwise("w"))


def psus(rng: np.random.Generator) -> pl.DataFrame:
    """About 2,400 records in 80 PSUs of 4 strata, which share a part of y, c and d."""
    stratum = np.arange(80) % 4
    psu = np.repeat(np.arange(80), rng.integers(20, 41, 80))
    n, shared = psu.size, rng.normal(size=(3, 80))[:, psu]
    own = rng.normal(size=(3, n))
    latent = np.sqrt([0.05, 0.2, 0.1])[:, None] * shared + np.sqrt([0.95, 0.8, 0.9])[:, None] * own
    return pl.DataFrame(
        {
            "h": stratum[psu],
            "psu": psu,
            "w": np.round(rng.uniform(1, 3, n), 2),
            "y": np.rint(50 + 10 * latent[0] + 2 * stratum[psu]).clip(0, 120).astype(int),
            "x": np.rint(rng.normal(60, 12, n)).clip(0, 120).astype(int),
            "b": rng.integers(0, 3, n),
            "c": (latent[1] > 0.5).astype(int),
            "d": np.digitize(latent[2], [-0.5, 0.8]),
        }
    )


def columns(prefix: str, values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{prefix}{r + 1}": np.round(values[:, r], 5) for r in range(values.shape[1])}


def write(frame: pl.DataFrame, name: str) -> None:
    tidy = frame.with_columns(
        pl.col("z", "t").fill_nan(None).cast(pl.Int64), pl.col("y").fill_nan(None)
    )
    tidy.write_csv(HERE / "data" / f"{name}.csv")


def make() -> None:
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(SEED).spawn(8)]
    for function, rng in zip(
        (stratified, clustered, two_stage, lonely, pairs, successive), streams, strict=False
    ):
        write(function(rng), function.__name__)
    frame, coefficients = jackknife(streams[6])
    write(frame, "jackknife")
    coefficients.write_csv(HERE / "data" / "jackknife_coefficients.csv")
    write(zero_weights(streams[7]), "zero_weights")
    psus(np.random.default_rng(SEED)).write_csv(HERE / "data" / "psus.csv")


def extract(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in PUBLIC.items():
        path = SHARED / file
        if not path.exists():
            continue
        frame = (
            pl.read_parquet(path)
            if path.suffix == ".parquet"
            else pl.read_csv(path, infer_schema_length=None)
        )
        frame.select(WANTED.get(name, frame.columns)).write_csv(folder / f"{name}.csv")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extract", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.extract:
        extract(arguments.extract)
    else:
        make()
