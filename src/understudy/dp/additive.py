"""Noise on a vector of whole numbers: its law, its price, and how it is drawn.

`Laplace` is pure epsilon for sums whose distance is measured entry by entry (L1); `Gaussian` is
rho-zCDP for the Euclidean distance (L2), and with it (epsilon, delta). Both know their distribution
in closed form, so an answer's posterior under a flat prior is the noise turned round.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from understudy.claim import checked_epsilon
from understudy.declarations import Declared
from understudy.dp.accounting import rho_of
from understudy.dp.noise import (
    Counts,
    exact_deviation,
    exact_scale,
    integer_gaussian,
    integer_laplace,
)

Floats = NDArray[np.float64]

NO_BLUR = 1e-6  # of the scale: below it the closed form is the noise alone


@dataclass(frozen=True)
class AdditiveNoise(Declared, abstract=True):
    """Noise for whole numbers that one unit can move by `sensitivity` in the norm."""

    norm: ClassVar[Literal[1, 2]]
    word: ClassVar[str]

    epsilon: float

    @abstractmethod
    def scale(self, sensitivity: int) -> float:
        """The parameter of the noise: Laplace's scale, or the standard deviation."""

    @abstractmethod
    def deviation(self, sensitivity: float) -> float:
        """The standard deviation of the noise."""

    @abstractmethod
    def add(self, sums: Counts, sensitivity: int) -> Counts:
        """The sums with noise from OpenDP."""

    @abstractmethod
    def cdf(self, value: ArrayLike, scale: float) -> Floats:
        """P(noise <= value), for noise of this scale on whole numbers."""

    @abstractmethod
    def quantile(self, probability: float, scale: float) -> float:
        """Where the distribution function reaches the probability."""

    @abstractmethod
    def blurred_cdf(self, value: ArrayLike, scale: float, blur: float = 0.0) -> Floats:
        """P(noise + normal error of standard deviation `blur` <= value), in any unit: for steps so
        fine that the whole numbers do not show."""

    @abstractmethod
    def blurred_pdf(self, value: ArrayLike, scale: float, blur: float = 0.0) -> Floats:
        """The density of the same."""

    def blurred_quantile(self, probability: float, scale: float, blur: float = 0.0) -> float:
        """Where `blurred_cdf` reaches the probability."""
        from scipy import optimize

        reach = 800 * scale + 40 * blur

        def lacking(value: float) -> float:
            return float(self.blurred_cdf(value, scale, blur)) - probability

        return float(optimize.brentq(lacking, -reach, reach, xtol=1e-12 * reach))


@dataclass(frozen=True)
class LaplaceNoise(AdditiveNoise):
    """Integer Laplace noise (two-sided geometric): pure epsilon."""

    norm = 1
    word = "integer Laplace noise"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)

    def scale(self, sensitivity: int) -> float:
        return exact_scale(sensitivity, self.epsilon)

    def deviation(self, sensitivity: float) -> float:
        """sqrt(2) times the scale: that of the continuous law, which bounds the integer one."""
        return math.sqrt(2.0) * sensitivity / self.epsilon

    def add(self, sums: Counts, sensitivity: int) -> Counts:
        return integer_laplace(sums, sensitivity, self.epsilon)

    def cdf(self, value: ArrayLike, scale: float) -> Floats:
        whole = np.floor(np.asarray(value, dtype=np.float64))
        a = math.exp(-1 / scale)
        below = np.exp(np.minimum(whole, 0.0) / scale) / (1 + a)
        above = 1 - np.exp(-(np.maximum(whole, 0.0) + 1) / scale) / (1 + a)
        return np.where(whole < 0, below, above)

    def quantile(self, probability: float, scale: float) -> float:
        a = math.exp(-1 / scale)
        if probability <= 1 / (1 + a) * math.exp(-1 / scale):
            return float(math.ceil(scale * math.log(probability * (1 + a))))
        tail = max((1 - probability) * (1 + a), 1e-300)
        return float(max(math.ceil(-scale * math.log(tail) - 1), 0))

    def blurred_cdf(self, value: ArrayLike, scale: float, blur: float = 0.0) -> Floats:
        """Phi(x/s) - e^(r^2/2)/2 (e^(-x/b) Phi(x/s - r) - e^(x/b) Phi(-x/s - r)), r = s/b."""
        x = np.asarray(value, dtype=np.float64)
        if blur <= NO_BLUR * scale:
            half = np.exp(-np.abs(x) / scale) / 2
            return np.where(x < 0, half, 1 - half)
        right, left = self._halves(x, scale, blur)
        return np.asarray(ndtr(x / blur) - (right - left) / 2)

    def blurred_pdf(self, value: ArrayLike, scale: float, blur: float = 0.0) -> Floats:
        x = np.asarray(value, dtype=np.float64)
        if blur <= NO_BLUR * scale:
            return np.asarray(np.exp(-np.abs(x) / scale) / (2 * scale))
        right, left = self._halves(x, scale, blur)
        return np.asarray((right + left) / (2 * scale))

    @staticmethod
    def _halves(x: Floats, scale: float, blur: float) -> tuple[Floats, Floats]:
        ratio = blur / scale
        return tuple(
            np.exp(ratio**2 / 2 - sign * x / scale + log_ndtr(sign * x / blur - ratio))
            for sign in (1.0, -1.0)
        )


@dataclass(frozen=True)
class GaussianNoise(AdditiveNoise):
    """Discrete Gaussian noise: rho-zCDP, and (epsilon, delta) by OpenDP's conversion."""

    norm = 2
    word = "discrete Gaussian noise"

    delta: float
    rho: float = 0.0

    def __post_init__(self) -> None:
        if not self.rho:
            object.__setattr__(self, "rho", rho_of(self.epsilon, self.delta))

    def scale(self, sensitivity: int) -> float:
        return exact_deviation(sensitivity**2, self.rho)

    def deviation(self, sensitivity: float) -> float:
        return sensitivity / math.sqrt(2 * self.rho)

    def add(self, sums: Counts, sensitivity: int) -> Counts:
        return integer_gaussian(sums, sensitivity**2, self.rho)

    def cdf(self, value: ArrayLike, scale: float) -> Floats:
        # the steps are so fine that the integer law is the normal one to the last digit
        return np.asarray(ndtr((np.floor(np.asarray(value, dtype=np.float64)) + 0.5) / scale))

    def quantile(self, probability: float, scale: float) -> float:
        return float(scale * ndtri(probability))

    def blurred_cdf(self, value: ArrayLike, scale: float, blur: float = 0.0) -> Floats:
        return np.asarray(ndtr(np.asarray(value, dtype=np.float64) / math.hypot(scale, blur)))

    def blurred_pdf(self, value: ArrayLike, scale: float, blur: float = 0.0) -> Floats:
        spread = math.hypot(scale, blur)
        x = np.asarray(value, dtype=np.float64) / spread
        return np.asarray(np.exp(-(x**2) / 2) / (spread * math.sqrt(2 * math.pi)))


def noise_for(epsilon: float, delta: float = 0.0) -> AdditiveNoise:
    """Laplace for pure epsilon, Gaussian where a delta is given."""
    return GaussianNoise(epsilon, delta) if delta else LaplaceNoise(epsilon)
