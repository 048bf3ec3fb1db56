"""pMSE: can a logistic regression tell synthetic records from confidential ones?

Woo, Reiter, Oganian and Karr (2009): pool both files, predict the probability p_i that a
record is synthetic, and average (p_i - c)^2, with c the synthetic share. 0 when the files
cannot be told apart, c(1 - c) when every record can.

Snoke, Raab, Nowok, Dibben and Slavkovic (2018): if the synthesis model is right, pMSE is
about (1 - c)^2 c / N times a chi-squared with k - 1 degrees of freedom, k the number of
parameters. The ratio to that mean is about 1 for a good synthesis at any file size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.linalg import qr
from scipy.special import expit

from understudy.errors import Refused
from understudy.survey.survey import Survey
from understudy.tables.computation import computation

__public__ = ("propensity_score",)

Floats = npt.NDArray[np.float64]

LARGEST_ETA = 30.0  # beyond it a probability is 0 or 1 to 13 digits: separated records
MOST_TERMS = 2_000


@dataclass(frozen=True)
class Propensity:
    """pMSE and where it stands against a correct synthesis."""

    pmse: float
    expected: float  # mean under a correct synthesis model
    ratio: float  # pmse / expected: about 1 is good
    standardised: float  # (pmse - expected) / standard deviation under the null
    terms: int  # k - 1: terms that differ between the files
    synthetic_share: float  # c
    predictors: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"pMSE {self.pmse:.3g}, {self.ratio:.2f} times what a correct synthesis gives "
            f"({self.terms} terms; standardised {self.standardised:.1f})"
        )


@computation()
def propensity_score(
    confidential: Survey | pl.DataFrame,
    synthetic: Survey | pl.DataFrame,
    columns: Sequence[str],
    *,
    interactions: bool = False,
    classes: int | None = None,
) -> Propensity:
    """pMSE of the named columns by logistic regression, with its null-standardised ratio.

    Numbers enter as they are (standardised), which sees a shift of their mean only; with
    `classes`, as indicators of that many classes of equal size, which sees any change of
    their distribution. Texts enter as indicators of their levels, missing values as a level
    or an indicator; `interactions` adds all products of two columns. A term that has the
    same values in both files (a column that was not synthesized) stays in the regression
    but is not counted, for it cannot differ under the null either.
    """
    names = list(dict.fromkeys(columns))
    if not names:
        raise Refused("Name at least one column that the propensity score should compare.")
    ours, theirs = _frame(confidential, names), _frame(synthetic, names)
    if ours.height < 2 or theirs.height < 2:
        raise Refused("A propensity score needs at least 2 records in each file.")
    if classes is not None and classes < 2:
        raise Refused("Numbers can be put into 2 or more classes; 5 or 10 are usual.")
    design, terms = _design(ours, theirs, interactions, classes)
    is_synthetic = np.repeat([0.0, 1.0], [ours.height, theirs.height])
    kept = _independent(design)
    design, terms = design[:, kept], [terms[k] for k in kept]
    differing = sum(
        not np.array_equal(np.sort(column[: ours.height]), np.sort(column[ours.height :]))
        for column in design.T
    )
    score = fitted_probabilities(design, is_synthetic)
    return standardised_pmse(score, is_synthetic, differing, tuple(terms))


def standardised_pmse(
    score: Floats, is_synthetic: Floats, terms: int, predictors: tuple[str, ...] = ()
) -> Propensity:
    """pMSE of given scores and its place under the null of Snoke et al. (2018)."""
    n, share = len(score), float(is_synthetic.mean())
    pmse = float(np.mean((score - share) ** 2))
    unit = (1 - share) ** 2 * share / n
    expected, deviation = terms * unit, np.sqrt(2 * terms) * unit
    if terms == 0:
        return Propensity(pmse, 0.0, float("nan"), float("nan"), 0, share, predictors)
    return Propensity(
        pmse,
        float(expected),
        float(pmse / expected),
        float((pmse - expected) / deviation),
        terms,
        share,
        predictors,
    )


def fitted_probabilities(design: Floats, outcome: Floats, iterations: int = 100) -> Floats:
    """Fitted P(outcome = 1) of a logistic regression with intercept, by Newton steps.

    Where the files separate, coefficients grow without bound but probabilities converge:
    the linear predictor is held within +-30.
    """
    x = np.column_stack([np.ones(len(design)), design])
    beta = np.zeros(x.shape[1])
    share = outcome.mean()
    beta[0] = np.log(share / (1 - share))
    loss = _deviance(x @ beta, outcome)
    for _ in range(iterations):
        p = expit(np.clip(x @ beta, -LARGEST_ETA, LARGEST_ETA))
        rooted = x * np.sqrt(np.maximum(p * (1 - p), 1e-12))[:, None]
        information = rooted.T @ rooted  # half the work of a product of two matrices
        step = np.linalg.lstsq(information, x.T @ (outcome - p), rcond=None)[0]
        size = 1.0
        while (new := _deviance(x @ (beta + size * step), outcome)) > loss and size > 1e-16:
            size /= 2  # down to 1e-16: a separated cell's weight of 1e-12 makes a step of 1e12
        if new > loss:
            break
        beta = beta + size * step
        if loss - new <= 1e-12 * (loss + 1e-12):
            break
        loss = new
    fitted: Floats = expit(np.clip(x @ beta, -LARGEST_ETA, LARGEST_ETA))
    return fitted


def _deviance(eta: Floats, outcome: Floats) -> float:
    """-2 log-likelihood."""
    eta = np.clip(eta, -LARGEST_ETA, LARGEST_ETA)
    return float(2 * np.sum(np.logaddexp(0.0, eta) - outcome * eta))


def _design(
    ours: pl.DataFrame, theirs: pl.DataFrame, interactions: bool, classes: int | None
) -> tuple[Floats, list[str]]:
    """Standardised numbers and indicators of both files, pooled; without intercept."""
    groups = [_column_terms(name, ours[name], theirs[name], classes) for name in ours.columns]
    count = sum(len(group) for group in groups)
    if interactions:
        count += sum(len(first) * len(second) for first, second in combinations(groups, 2))
    if count > MOST_TERMS:
        raise Refused(
            f"The regression would have {count} terms, more than {MOST_TERMS}; leave out columns "
            "with very many levels, or the interactions."
        )
    terms = [term for group in groups for term in group]
    if interactions:
        for first, second in combinations(groups, 2):
            terms += [(f"{a}:{b}", x * y) for a, x in first for b, y in second]
    if not terms:
        raise Refused("All of the columns are constant in both files; name columns that vary.")
    return np.column_stack([values for _, values in terms]), [name for name, _ in terms]


def _column_terms(
    name: str, ours: pl.Series, theirs: pl.Series, classes: int | None
) -> list[tuple[str, Floats]]:
    """The regression terms of one column, over the records of both files."""
    kinds = [_kind(name, column) for column in (ours, theirs)]
    if kinds[0] != kinds[1]:
        raise Refused(f"The column `{name}` is numeric in one file and text in the other.")
    if kinds[0] == "number":
        numbers = pl.concat([ours.cast(pl.Float64), theirs.cast(pl.Float64)]).fill_nan(None)
        if numbers.is_infinite().any():
            raise Refused(f"The column `{name}` has infinite values; recode them as missing.")
        if classes is None:
            return _number_terms(name, numbers)
        return _level_terms(name, _in_classes(numbers, classes))
    return _level_terms(name, pl.concat([ours.cast(pl.String), theirs.cast(pl.String)]))


def _kind(name: str, column: pl.Series) -> str:
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return "number"
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return "level"
    raise Refused(f"The column `{name}` is neither numeric nor text; leave it out or convert it.")


def _number_terms(name: str, values: pl.Series) -> list[tuple[str, Floats]]:
    """The standardised values, and an indicator of missing ones where there are any."""
    terms = []
    missing = values.is_null().to_numpy().astype(np.float64)
    mean = values.mean() if missing.sum() < len(missing) else 0.0
    numbers = values.fill_null(mean).to_numpy()
    spread = numbers.std()
    if spread > 0:
        terms.append((name, (numbers - numbers.mean()) / spread))
    if 0 < missing.sum() < len(missing):
        terms.append((f"{name} missing", missing))
    return terms


def _in_classes(values: pl.Series, classes: int) -> pl.Series:
    """Numbers by the class between quantiles of both files together; ties share a class."""
    present = values.drop_nulls().to_numpy()
    if len(present) == 0:
        return values.cast(pl.String)
    edges = np.unique(np.quantile(present, np.arange(1, classes) / classes, method="lower"))
    numbers = np.searchsorted(edges, values.fill_null(0.0).to_numpy(), side="left")
    return pl.select(
        pl.when(values.is_not_null()).then(pl.Series(numbers).cast(pl.String))
    ).to_series()


def _level_terms(name: str, values: pl.Series) -> list[tuple[str, Floats]]:
    """Indicators of all levels but the first; missing is a level of its own."""
    filled = values.fill_null("(missing)")
    levels = filled.unique().sort().to_list()
    if len(levels) > MOST_TERMS:
        raise Refused(
            f"The column `{name}` has {len(levels)} levels, more than {MOST_TERMS}; leave it out."
        )
    return [
        (f"{name}={level}", (filled == level).to_numpy().astype(np.float64)) for level in levels[1:]
    ]


def _independent(design: Floats) -> list[int]:
    """Columns that are linearly independent of each other and of the intercept, in order.

    Pivoted QR of the Gram matrix of centred, scaled columns: its cost does not grow with n.
    """
    centred = design - design.mean(axis=0)
    gram = centred.T @ centred
    norms = np.sqrt(np.diag(gram))
    norms = np.where(norms > 0, norms, 1.0)
    _, diagonal, pivots = qr(gram / np.outer(norms, norms), mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(diagonal)) > 1e-9).sum())
    return sorted(int(p) for p in pivots[:rank])


def _frame(data: Survey | pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return (data if isinstance(data, Survey) else Survey(data)).frame(names)
