"""Whether chains agree and how much they are worth: rank-normalised R-hat and ESS.

Definitions: Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), "Rank-normalization, folding,
and localization", as in Stan. All functions take draws of shape (chains, draws, d) and work on
all coordinates at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Draws = NDArray[np.float64]
Vector = NDArray[np.float64]

LARGEST_RHAT = 1.01
LEAST_ESS = 400.0
DIVERGENT_SHARE = 0.001
LARGEST_SHORTFALL = 0.05  # of a standard error that users of drawn files form
LEAST_CHAINS = 4  # with fewer their means say too little of how far chains lie apart


@dataclass(frozen=True)
class Diagnostics:
    """R-hat, bulk and tail ESS by coordinate (d,) of the kept draws, and how many transitions of
    the whole run (draws times thinning) diverged. Where coordinates are numbers of drawn files,
    `shortfall` is by how much a true standard error exceeds the one that users form, at most."""

    coordinates: tuple[str, ...] = field(repr=False)
    rhat: Vector = field(repr=False)
    ess_bulk: Vector = field(repr=False)
    ess_tail: Vector = field(repr=False)
    divergences: int
    chains: int
    draws: int
    thinning: int
    shortfall: Vector | None = field(repr=False, default=None)

    @property
    def largest_rhat(self) -> float:
        return float(np.where(np.isnan(self.rhat), np.inf, self.rhat).max())

    @property
    def least_ess_bulk(self) -> float:
        return float(np.where(np.isnan(self.ess_bulk), 0.0, self.ess_bulk).min())

    @property
    def least_ess_tail(self) -> float:
        return float(np.where(np.isnan(self.ess_tail), 0.0, self.ess_tail).min())

    @property
    def diverged(self) -> bool:
        """Whether too many transitions failed to follow the density."""
        return self.divergences > DIVERGENT_SHARE * self.draws * self.thinning

    @property
    def largest_shortfall(self) -> float:
        """Infinite where nothing but exact draws will do."""
        if self.shortfall is None or self.chains < LEAST_CHAINS:
            return np.inf
        return float(np.where(np.isnan(self.shortfall), np.inf, self.shortfall).max())

    @property
    def failures(self) -> list[str]:
        """What stands against a release, in words; empty when all is well."""
        reasons = self.misses
        if self.shortfall is None or not reasons:
            return reasons
        if self.largest_shortfall <= LARGEST_SHORTFALL:
            return reasons[-1:] if self.diverged else []
        short = np.nan_to_num(self.shortfall, nan=np.inf)
        worst = self.coordinates[int(short.argmax())]
        return [
            *reasons,
            f"a standard error of `{worst}` would be {short.max():.0%} too small, not at most "
            f"{LARGEST_SHORTFALL:.0%}",
        ]

    @property
    def misses(self) -> list[str]:
        """In what the chains differ from good ones, in words; chains run on while there is any."""
        reasons = []
        if self.largest_rhat >= LARGEST_RHAT:
            worst = self.coordinates[int(np.nanargmax(np.nan_to_num(self.rhat, nan=np.inf)))]
            reasons.append(
                f"R-hat of `{worst}` is {self.largest_rhat:.3f}, not below {LARGEST_RHAT}"
            )
        if self.least_ess_bulk <= LEAST_ESS:
            worst = self.coordinates[int(np.argmin(np.nan_to_num(self.ess_bulk)))]
            reasons.append(
                f"bulk ESS of `{worst}` is {self.least_ess_bulk:.0f}, not above {LEAST_ESS:.0f}"
            )
        if self.diverged:
            transitions = self.draws * self.thinning
            reasons.append(f"{self.divergences} of {transitions} transitions diverged")
        return reasons


def diagnose(
    positions: Draws,
    divergences: int,
    coordinates: list[str],
    thinning: int = 1,
    variance: Vector | None = None,
) -> Diagnostics:
    """`variance` is each coordinate's own in a file of the size of those that are released, where
    coordinates are numbers of drawn files."""
    chains, per_chain, _ = positions.shape
    return Diagnostics(
        tuple(coordinates),
        rhat(positions),
        ess_bulk(positions),
        ess_tail(positions),
        divergences,
        chains,
        chains * per_chain,
        thinning,
        None if variance is None else shortfall(positions, variance),
    )


def shortfall(positions: Draws, variance: Vector) -> Vector:
    """sqrt(1 + V / variance) - 1, where V is the variance of the mean over all chains: that of
    chains' means by their number, or by autocorrelations, whichever is larger."""
    chains = len(positions)
    apart = positions.mean(axis=1).var(axis=0, ddof=1) / chains if chains > 1 else np.inf
    split = _split(positions)
    draws = split.shape[1]
    total = split.var(axis=1, ddof=1).mean(axis=0) * (draws - 1) / draws
    total += split.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(1.0 + np.maximum(apart, total / _ess(split)) / variance) - 1.0)


def rhat(positions: Draws) -> Vector:
    """The larger of split R-hat of the ranks and of the ranks of |x - median|."""
    split = _split(positions)
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    return np.maximum(_plain_rhat(_normal_scores(split)), _plain_rhat(_normal_scores(folded)))


def ess_bulk(positions: Draws) -> Vector:
    """Effective sample size of the normal scores, for the centre of the distribution."""
    return _ess(_normal_scores(_split(positions)))


def ess_tail(positions: Draws) -> Vector:
    """The smaller effective sample size of the indicators below the 5 % and 95 % quantiles."""
    limits = np.quantile(positions, (0.05, 0.95), axis=(0, 1))
    return np.minimum(*(_ess(_split((positions <= q).astype(np.float64))) for q in limits))


def _split(positions: Draws) -> Draws:
    """Each chain cut into halves; the middle draw of an odd number is left out."""
    half = positions.shape[1] // 2
    return np.concatenate([positions[:, :half], positions[:, -half:]], axis=0)


def _normal_scores(x: Draws) -> Draws:
    """Phi^-1((rank - 3/8)/(S + 1/4)) over all chains together."""
    flat = x.reshape(-1, x.shape[-1])
    from scipy.stats import rankdata  # slow to load, and a whole file has no chains

    ranks = rankdata(flat, axis=0)
    return np.asarray(ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(x.shape))


def _plain_rhat(x: Draws) -> Vector:
    draws = x.shape[1]
    between = draws * x.mean(axis=1).var(axis=0, ddof=1)
    within = x.var(axis=1, ddof=1).mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((between / within + draws - 1) / draws))


def _ess(x: Draws) -> Vector:
    """S / tau of two or more chains, tau from Geyer's initial monotone sequence of paired
    autocorrelations."""
    chains, draws, _ = x.shape
    autocovariance = _autocovariance(x)
    within = (autocovariance[:, 0] * draws / (draws - 1)).mean(axis=0)
    total = within * (draws - 1) / draws + x.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - autocovariance.mean(axis=0)) / total
    rho[0] = 1.0
    most = 2 * ((draws - 3) // 2)  # Stan goes no further
    pairs = rho[0:most:2] + rho[1:most:2]
    alive = np.cumprod(pairs > 0, axis=0).astype(bool)
    monotone = np.minimum.accumulate(np.where(alive, pairs, np.inf), axis=0)
    tau = -1.0 + 2.0 * np.where(alive, monotone, 0.0).sum(axis=0)
    # the first even lag after the cut still counts where it is positive (Stan's improvement)
    cut = 2 * alive.sum(axis=0)
    tau = tau + np.maximum(np.take_along_axis(rho, cut[None], axis=0)[0], 0.0)
    size = chains * draws
    tau = np.maximum(tau, 1.0 / np.log10(size))
    return np.where(total > 0, size / tau, np.nan)


def _autocovariance(x: Draws) -> Draws:
    draws = x.shape[1]
    centred = x - x.mean(axis=1, keepdims=True)
    length = 1 << (2 * draws - 1).bit_length()
    spectrum = np.fft.rfft(centred, n=length, axis=1)
    power = np.fft.irfft(spectrum * np.conj(spectrum), n=length, axis=1)
    return np.asarray(power[:, :draws] / draws)
