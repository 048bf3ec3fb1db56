"""SAS files for the tests, written by ReadStat's own writer inside the pyreadstat package.

pyreadstat exposes no sas7bdat writer and no tagged missing values of SAS, but the C library
that it contains has both; it is called here through ctypes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from pyreadstat import _readstat_writer

_STRING, _DOUBLE = 0, 5
_DATA_WRITER = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class Tag(str):
    """A special missing value, such as Tag("A") for .A."""


def write_sas(
    path: Path,
    columns: dict[str, Sequence[float | str | None]],
    labels: dict[str, str] | None = None,
    formats: dict[str, str] | None = None,
) -> None:
    """Write .sas7bdat or .xpt: floats, texts, None and tags."""
    library, writer, _alive, written = _writer()
    variables = []
    for name, values in columns.items():
        texts = [v for v in values if isinstance(v, str) and not isinstance(v, Tag)]
        kind, width = (_STRING, max(map(len, texts))) if texts else (_DOUBLE, 8)
        variable = ctypes.c_void_p(
            library.readstat_add_variable(writer, name.encode(), kind, ctypes.c_size_t(width))
        )
        if labels and name in labels:
            library.readstat_variable_set_label(variable, labels[name].encode())
        if formats and name in formats:
            library.readstat_variable_set_format(variable, formats[name].encode())
        variables.append((variable, kind))
    count = len(next(iter(columns.values())))
    if path.suffix == ".xpt":
        _ok(library.readstat_writer_set_file_format_version(writer, ctypes.c_uint8(5)))
        begin = library.readstat_begin_writing_xport
    else:
        begin = library.readstat_begin_writing_sas7bdat
    _ok(begin(writer, None, ctypes.c_long(count)))
    for row in zip(*columns.values(), strict=True):
        _ok(library.readstat_begin_row(writer))
        for (variable, kind), value in zip(variables, row, strict=True):
            if value is None:
                _ok(library.readstat_insert_missing_value(writer, variable))
            elif isinstance(value, Tag):
                tag = ctypes.c_char(value.encode())
                _ok(library.readstat_insert_tagged_missing_value(writer, variable, tag))
            elif kind == _STRING:
                _ok(library.readstat_insert_string_value(writer, variable, str(value).encode()))
            else:
                number = ctypes.c_double(float(value))
                _ok(library.readstat_insert_double_value(writer, variable, number))
        _ok(library.readstat_end_row(writer))
    _ok(library.readstat_end_writing(writer))
    library.readstat_writer_free(writer)
    path.write_bytes(bytes(written))


def write_catalogue(path: Path, formats: dict[str, dict[float | str, str]]) -> None:
    """Write .sas7bcat: the labels of the values under the name of each format."""
    library, writer, _alive, written = _writer()
    library.readstat_add_label_set.restype = ctypes.c_void_p
    for name, labels in formats.items():
        texts = any(isinstance(value, str) for value in labels)
        kind = _STRING if texts else _DOUBLE
        label_set = ctypes.c_void_p(library.readstat_add_label_set(writer, kind, name.encode()))
        for value, label in labels.items():
            if isinstance(value, str):
                library.readstat_label_string_value(label_set, value.encode(), label.encode())
            else:
                number = ctypes.c_double(value)
                library.readstat_label_double_value(label_set, number, label.encode())
    _ok(library.readstat_begin_writing_sas7bcat(writer, None))
    _ok(library.readstat_end_writing(writer))
    library.readstat_writer_free(writer)
    path.write_bytes(bytes(written))


def _writer() -> tuple[ctypes.CDLL, ctypes.c_void_p, object, bytearray]:
    """The library, a writer of it, the callback (which must live as long), and what it wrote."""
    library = ctypes.CDLL(_readstat_writer.__file__)
    for name in ("readstat_writer_init", "readstat_add_variable"):
        getattr(library, name).restype = ctypes.c_void_p
    written = bytearray()

    def collect(data: int, length: int, _: object) -> int:
        written.extend(ctypes.string_at(data, length))
        return length

    callback = _DATA_WRITER(collect)
    writer = ctypes.c_void_p(library.readstat_writer_init())
    _ok(library.readstat_set_data_writer(writer, callback))
    return library, writer, callback, written


def _ok(error: int) -> None:
    if error:
        raise RuntimeError(f"ReadStat refused to write the test file (error {error})")
