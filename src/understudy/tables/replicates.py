"""Variance by replicate weights: sum_r c_r (theta_r - centre)^2.

brr 1/R    fay 1/(R (1-rho)^2)    jk1 (R-1)/R    jkn (n_h-1)/n_h, given
bootstrap 1/(R-1)    sdr 4/R (successive differences, the ACS's 4/80)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.cluster import summaries
from understudy.errors import Refused
from understudy.survey.design import Replicates
from understudy.survey.survey import Survey

Floats = NDArray[np.float64]


def coefficients(spec: Replicates, count: int) -> Floats:
    """c_r of each of `count` replicates."""
    if spec.kind == "jkn":
        return np.asarray(spec.coefficients, dtype=np.float64)
    coefficient = {
        "brr": 1 / count,
        "fay": 1 / (count * (1 - (spec.fay or 0.0)) ** 2),
        "jk1": (count - 1) / count,
        "bootstrap": 1 / (count - 1),
        "sdr": 4 / count,
    }[spec.kind]
    return np.full(count, coefficient)


def replicate_variance(
    estimate: Floats, replicated: Floats, spec: Replicates
) -> tuple[Floats, NDArray[np.int64]]:
    """Variance of each domain, and how many replicates have no estimate of it (NaN).

    From (domains,) estimates and (domains, R) replicated ones. Replicates without an estimate
    are left out and the coefficients of the others kept, as R survey does; NaN where there are
    none left.
    """
    c = coefficients(spec, replicated.shape[-1])
    known = ~np.isnan(replicated)
    centre = estimate
    if spec.centre != "estimate":
        counted = known & (c > 0)
        with np.errstate(invalid="ignore"):
            centre = np.where(counted, replicated, 0.0).sum(axis=-1) / counted.sum(axis=-1)
    squares = np.where(known, (replicated - centre[:, None]) ** 2, 0.0)
    variance = np.where(known.any(axis=-1), squares @ c, np.nan)
    variance[np.isnan(estimate)] = np.nan
    return variance, (~known).sum(axis=-1)


def replicate_covariance(estimate: Floats, replicated: Floats, spec: Replicates) -> Floats:
    """(p, p) covariance of p estimates from (p, R) replicated ones."""
    c = coefficients(spec, replicated.shape[-1])
    centre = estimate if spec.centre == "estimate" else replicated[:, c > 0].mean(axis=-1)
    deviation = replicated - centre[:, None]
    return np.asarray((deviation * c) @ deviation.T, dtype=np.float64)


def replicate_df(batches: Iterable[Floats]) -> float:
    """Rank of the (n, R) replicate weights minus 1, as R survey counts it, in at most one pass."""
    return _degrees(block.T @ block for block in batches)


def _degrees(each: Iterable[Floats]) -> float:
    """The same from the R x R products of parts of the records, which are enough: a relative
    singular value below 1e-5 shows in their sum as an eigenvalue below 1e-10, far above rounding.
    More records cannot lower a rank, so the pass ends where it is R.
    """
    products: Floats | None = None
    rank = 1
    for product in each:
        products = product if products is None else products + product
        rank = _rank(products)
        if rank == len(products):
            break
    return float(rank - 1)


def _rank(products: Floats) -> int:
    norms = np.sqrt(np.diag(products))
    norms = np.where(norms > 0, norms, 1.0)
    eigenvalues = np.linalg.eigvalsh(products / np.outer(norms, norms))
    return int((eigenvalues > 1e-10 * eigenvalues[-1]).sum())


def replicate_degrees(survey: Survey, replicates: Sequence[str], known: bool = False) -> float:
    """Degrees of freedom of a design with replicate weights; one pass for each survey, and another
    one to see that all weights are numbers, unless that is `known`."""
    columns = tuple(replicates)
    degrees = _DEGREES.setdefault(survey, {})
    if columns not in degrees:
        if not known:
            refuse_unknown(survey, columns)
        degrees[columns] = _degrees(_products(survey, columns))
    return degrees[columns]


_DEGREES: WeakKeyDictionary[Survey, dict[tuple[str, ...], float]] = WeakKeyDictionary()


def refuse_unknown(survey: Survey, columns: Sequence[str]) -> None:
    """Refuse replicate weights that are missing, NaN or infinite for a record."""
    selected = _selected(survey, columns)
    facts = selected.aggregate(
        **{f"known{i}": selected[name].count() for i, name in enumerate(columns)},
        **{f"sum{i}": selected[name].sum() for i, name in enumerate(columns)},
        records=selected.count(),
    )
    totals = facts.to_polars().row(0, named=True)
    for i, name in enumerate(columns):
        if totals[f"known{i}"] < totals["records"] or not np.isfinite(totals[f"sum{i}"] or 0.0):
            raise Refused(
                f"The replicate weight `{name}` is missing or not finite for some records; repair "
                "it, or set it to 0 where a record has no part in the replicate."
            )


def _selected(survey: Survey, columns: Sequence[str]) -> ir.Table:
    table = survey.table
    return table.select([table[name].cast("float64").name(name) for name in columns])


def _products(survey: Survey, columns: tuple[str, ...]) -> Iterator[Floats]:
    """The products of blocks of records, or, where these are on a cluster, of its partitions."""
    summarize = _of_partition if survey.on_cluster else _of_blocks
    size = len(columns)
    for product in summaries(_selected(survey, columns), summarize, 20_000):
        yield np.frombuffer(product).reshape(size, size)


def _of_blocks(blocks: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for block in blocks:
        columns = [column.to_numpy(zero_copy_only=False) for column in block]
        matrix = np.column_stack(columns).astype(np.float64)
        yield (matrix.T @ matrix).tobytes()


def _of_partition(blocks: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    total = sum(np.frombuffer(product) for product in _of_blocks(blocks))
    if not isinstance(total, int):  # a partition may be empty
        yield total.tobytes()
