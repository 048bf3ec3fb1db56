"""A clipped release of FBS: independent proposals beside NUTS, in processor time and memory.

    python bench/clipped_speed.py [RECORDS ...]

Each size makes three files under ReferenceCensored (epsilon 3, a past file as the reference), in a
process of its own, with everything that a release from Python does: reading the reference, both
fits, record bounds, records. NUTS is run on the smallest size alone; a million take it an hour. The
bars: 13,367 records under 10 seconds, a million under 60 and 4 GB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
import polars as pl

import understudy as us
from understudy.fitting import fitter

SIZES = (13_367, 200_000, 1_000_000)
COLUMNS = (
    us.Column("field", type="categorical", levels=tuple("abcdefgh")),
    us.Column("gender", type="categorical", levels=("f", "m")),
    us.Column("salary", role="sensitive", bounds=(1.0, 1e9)),
    us.Column("w", role="weight", bounds=(0.1, 1e6)),
)


def survey(n: int, seed: int) -> us.Survey:
    rng = np.random.default_rng(seed)
    field, gender = rng.integers(0, 8, n), rng.integers(0, 2, n)
    log_salary = 11 + 0.1 * field - 0.15 * gender + 0.45 * rng.standard_normal(n)
    frame = pl.DataFrame({
        "field": np.array(list("abcdefgh"))[field],
        "gender": np.array(["f", "m"])[gender],
        "salary": np.exp(log_salary),
        "w": np.exp(rng.normal(3.0, 0.5, n)),
    })  # fmt: skip
    return us.Survey(frame, us.Design(weight="w"), us.Codebook({c.name: c for c in COLUMNS}))


def release(n: int, by_nuts: bool) -> None:
    if by_nuts:
        fitter.is_clipped_gaussian = lambda *_: False
    confidential, past = survey(n, 1), survey(n, 2)
    model = us.FBS("salary", "field + gender", population=1e6)
    start = time.process_time()
    us.synthesize(confidential, model, us.ReferenceCensored(3.0, past), datasets=3, seed=7)
    taken = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    way = "NUTS" if by_nuts else "independent proposals"
    print(f"{n:,} records, {way}: {taken:.1f} s, {memory:.1f} GB", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        release(int(sys.argv[2]), sys.argv[3] == "nuts")
        return
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    for n, way in [(min(sizes), "nuts"), *((size, "proposals") for size in sizes)]:
        subprocess.run([sys.executable, __file__, "--one", str(n), way], check=True)


if __name__ == "__main__":
    main()
