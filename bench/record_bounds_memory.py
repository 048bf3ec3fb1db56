"""Record bounds of a million records over 1,000 draws: time and peak memory of the process.

python bench/record_bounds_memory.py
"""

from __future__ import annotations

import resource
import time

import numpy as np

from understudy.dp.record_bounds import record_bounds
from understudy.models.beta import Beta
from understudy.models.density import density_of

N, DRAWS, LIMIT_GB = 1_000_000, 1000, 2.0


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes on Linux


def main() -> None:
    rng = np.random.default_rng(0)
    arrays = {"y": rng.beta(0.5, 3, N)}
    density = density_of(Beta("y"), arrays)
    positions = rng.normal([-1.8, 1.25], 0.02, (DRAWS, 2))
    before, start = peak_gb(), time.perf_counter()
    bounds = record_bounds(density.record_loglik, positions, arrays, np.ones(N), np.zeros(N))
    taken, after = time.perf_counter() - start, peak_gb()
    matrix = N * DRAWS * 8 / 1e9
    print(
        f"{'records':>10}{'draws':>8}{'seconds':>10}{'peak GB':>10}{'before':>9}{'matrix GB':>11}"
    )
    print(f"{N:>10,}{DRAWS:>8,}{taken:>10.1f}{after:>10.2f}{before:>9.2f}{matrix:>11.1f}")
    print(f"largest bound {bounds.overall:.2f}; under {LIMIT_GB:g} GB: {after < LIMIT_GB}")


if __name__ == "__main__":
    main()
