"""A peer's synthetic file from coded records, in its own environment.

    build/peers/dpmm/bin/python bench/peers/synthesize.py dpmm-aim codes.csv sizes.json \\
        EPSILON DELTA made.csv

Prints the CPU seconds of fitting and drawing, without imports and reading; children count.

smartnoise-synth 1.0.8 admits mbi 1.1 alone, which gives the rows of a group the child's values in
the order of the rows, so that columns without an edge depend on each other (pairs of 8 columns of
ACS Hawaii at (1, 1e-5): mean total variation .111). mbi 2.0 takes the rows of a group in random
order; here mbi 1.1 is made to do the same.
"""

from __future__ import annotations

import json
import resource
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd


def dpmm(name, frame, sizes, epsilon, delta):
    from dpmm.pipelines.aim import AIMPipeline
    from dpmm.pipelines.mst import MSTPipeline

    kind = AIMPipeline if name == "dpmm-aim" else MSTPipeline

    def run():
        pipeline = kind(epsilon=epsilon, delta=delta, disable_processing=True, n_jobs=1)
        pipeline.fit(frame, domain=sizes)
        return pipeline.generate(n_records=len(frame))

    return run


def smartnoise(_, frame, sizes, epsilon, delta):
    from mbi import markov_random_field
    from snsynth import Synthesizer
    from snsynth.transform import LabelTransformer, TableTransformer

    markov_random_field.np = SimpleNamespace(**vars(np) | {"argsort": random_ties})
    columns = []
    for size in sizes.values():
        labels = LabelTransformer(nullable=False)
        labels.fit(range(size))  # the declared codes, not those that occur
        columns.append(labels)

    def run():
        mst = Synthesizer.create("mst", epsilon=epsilon, delta=delta)
        mst.fit(frame, transformer=TableTransformer(columns), preprocessor_eps=0.0)
        return mst.sample(len(frame))

    return run


def synthpop(_, frame, sizes, epsilon, delta):  # noqa: ARG001
    from synthpop import Synthpop

    frame = frame.astype("category")

    def run():
        trees = Synthpop()
        trees.fit(frame, dict.fromkeys(frame, "category"))
        return trees.generate(len(frame))

    return run


def random_ties(groups, **_):
    return np.lexsort((np.random.rand(len(groups)), groups))


def seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    name, codes, sizes_file, epsilon, delta, out = sys.argv[1:]
    frame = pd.read_csv(codes)
    with open(sizes_file, encoding="utf-8") as file:
        sizes = json.load(file)
    family = {"dpmm": dpmm, "smartnoise": smartnoise, "synthpop": synthpop}[name.partition("-")[0]]
    run = family(name, frame, sizes, float(epsilon), float(delta))
    start = seconds()
    made = run()
    print(json.dumps({"seconds": seconds() - start}))
    made.astype("int64").to_csv(out, index=False)
