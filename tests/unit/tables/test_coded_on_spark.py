"""What a worker counts of its records, and which tables are counted at once, without a cluster."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from understudy.tables import coded_on_spark


def test_a_worker_counts_the_cells_of_its_blocks() -> None:
    rng = np.random.default_rng(1)
    stored = rng.integers(0, (3, 4), (50, 2)).astype(np.int32)
    merged = np.array([0, 1, 1, 0])
    blocks = (
        pa.RecordBatch.from_pydict({"a": part[:, 0], "b": part[:, 1]})
        for part in np.split(stored, [20, 45])
    )
    columns = [(0, None, 3), (1, None, 4), (1, merged, 2)]
    tables = [[0], [1, 0], [2, 0], [0, 1, 2]]
    (arrived,) = coded_on_spark._count_blocks(tables, columns, blocks)

    a, b = stored.T
    codes, sizes = [a, b, merged[b]], [3, 4, 2]
    by_hand = []
    for names in tables:
        counts = np.zeros([sizes[k] for k in names], dtype=int)
        np.add.at(counts, tuple(codes[k] for k in names), 1)
        by_hand.append(counts.ravel())
    flat = np.concatenate(by_hand)
    np.testing.assert_array_equal(arrived["cell"], np.flatnonzero(flat))
    np.testing.assert_array_equal(arrived["records"], flat[flat > 0])


@pytest.mark.parametrize("sizes", [[50, 50, 1, 99, 1], [500, 1, 1], [100], [40, 70, 30, 70, 1]])
def test_tables_are_counted_at_once_up_to_a_limit(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coded_on_spark, "AT_ONCE", 100)
    parts = coded_on_spark._parts(sizes)
    assert [k for part in parts for k in part] == list(range(len(sizes)))
    together = [sum(sizes[k] for k in part) for part in parts]
    assert all(size <= 100 or len(part) == 1 for size, part in zip(together, parts, strict=True))
    assert all(size + sizes[part[0]] > 100 for size, part in zip(together, parts[1:], strict=False))
