"""The garbage collector does not go through what every test shares.

After collection the process holds the modules of JAX, Ibis and others for good: these are set
aside, and new objects are looked at in larger lots.
"""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
