"""Linear algebra in one thread while a table, a regression or a comparison is computed.

Our matrices are tall and narrow. A second thread of BLAS gains little on them, and where other work
keeps its processor busy the threads wait for each other in a loop: the same table then costs 4 to
90 times the processor time. The number of threads before is set again afterwards, when the last of
several such computations has ended.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

_LOADED = Path("/proc/self/maps")  # where there is none, BLAS keeps its threads
_NAMES = [
    (f"{prefix}openblas_set_num_threads{suffix}", f"{prefix}openblas_get_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
] + [("MKL_Set_Num_Threads", "MKL_Get_Max_Threads")]
_lock = Lock()
_before: dict[str, tuple[Callable[[int], None], int]] = {}  # by library, while any is limited
_under_way: list[None] = []  # one for each computation


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Around a computation, or as a decorator of a function."""
    with _lock:
        for path, (change, count) in _libraries(len(sys.modules)).items():
            _before.setdefault(path, (change, count()))
            change(1)
        _under_way.append(None)
    try:
        yield
    finally:
        with _lock:
            _under_way.pop()
            while _before and not _under_way:
                _, (change, threads) = _before.popitem()
                change(threads)


@cache
def _libraries(modules: int) -> dict[str, tuple[Callable[[int], None], Callable[[], int]]]:  # noqa: ARG001
    """How to set and to read the number of threads of every BLAS in this process; looked for anew
    when there are other `modules`, since these bring it."""
    if not _LOADED.exists():
        return {}
    paths = {line.split()[-1] for line in _LOADED.read_text().splitlines() if "/" in line}
    libraries = {}
    for path in sorted(paths):
        if "blas" in Path(path).name or "mkl_rt" in path:
            library = ctypes.CDLL(path)
            for change, count in _NAMES:
                if hasattr(library, change) and hasattr(library, count):
                    libraries[path] = getattr(library, change), getattr(library, count)
    return libraries
