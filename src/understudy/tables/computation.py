"""Around everything that is computed from records: one thread of BLAS, and a refusal where values
cannot be used as they were asked for. The libraries' own messages quote values, so they are not
repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import ibis.common.exceptions as ibis_errors
import numpy as np
import polars as pl
import pyarrow as pa

from understudy.errors import Refused
from understudy.one_blas_thread import one_blas_thread

NOT_FINITE = (
    "A column has infinite values, or values too large to add up; correct them, declare them as "
    "missing, or leave them out with `where`."
)
NOT_CONVERTED = (
    "A value cannot be converted as this asks for; compare and compute numbers with numbers, texts "
    "with texts and dates with dates, or convert the column first."
)
NOT_SOLVED = (
    "The equations have no single solution: columns repeat each other, hardly vary or are too "
    "large; leave one out, or merge its levels."
)


@contextmanager
def computation() -> Iterator[None]:
    """Around a computation, or as a decorator of a function."""
    try:
        with one_blas_thread():
            yield
    except duckdb.OutOfRangeException:
        raise Refused(NOT_FINITE) from None
    except (
        duckdb.ConversionException,
        duckdb.InvalidInputException,
        ibis_errors.IbisTypeError,
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pl.exceptions.InvalidOperationError,
    ):
        raise Refused(NOT_CONVERTED) from None
    except np.linalg.LinAlgError:
        raise Refused(NOT_SOLVED) from None
