"""SAS data sets (.sas7bdat) and transport files (.xpt): read with their labels, not written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.errors import Refused
from understudy.survey.labelled.format import Labelled

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.labelled.xport import XportLayout
    from understudy.survey.survey import Survey

CATALOGUE = ".sas7bcat"


def _plain(name: str) -> str:
    """The name of a format without its width, and without the $ of texts."""
    return re.sub(r"[0-9]*\.?[0-9]*$", "", name.upper()).removeprefix("$")


class _Sas(Labelled, abstract=True):
    name = "SAS"
    written = ()
    day_format = r"(DATE|DDMMYY|MMDDYY|YYMMDD|YYMM|YYQ|MONYY|JULIAN|WEEKDAT|WORDDAT|[EB]8601DA)"
    moment_format = r"(DATETIME|[EB]8601DT|DATEAMPM)"
    days_to_1970 = 3653
    ticks_in_a_day = 1
    ticks_in_a_second = 1
    tells_integers = False
    r_package = "haven"

    def write(self, survey: Survey, codebook: Codebook, path: Path) -> None:  # noqa: ARG002
        raise Refused("SAS files are read, not written; write Parquet, Stata or SPSS.")


class SasData(_Sas):
    endings = (".sas7bdat",)
    reader = "read_sas7bdat"

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The catalogue with the value labels: of the same name, or called formats."""
        named = path.with_suffix(CATALOGUE)
        return (named, path.with_name(f"formats{CATALOGUE}"))

    def value_labels(self, path: Path, meta: Any) -> Mapping[str, Mapping[Any, str]]:
        """Those of the catalogue, by the name of each column's format (SEXF8. is SEXF)."""
        import pyreadstat

        catalogue = next((file for file in self.companions(path) if file.exists()), None)
        if catalogue is None:
            return {}
        try:
            read = pyreadstat.read_sas7bcat(str(catalogue), output_format="dict")
            by_format = read[1].value_labels
        except Exception:  # the library raises many kinds, and their texts may quote data
            raise Refused(
                f"The catalogue `{catalogue.name}` cannot be read: it is damaged, or of another "
                "kind; take it away to read the file without value labels."
            ) from None
        known = {_plain(name): labels for name, labels in by_format.items()}
        formats = meta.original_variable_types
        return {column: known.get(_plain(name or ""), {}) for column, name in formats.items()}

    r_reads = "as.data.frame(haven::zap_labels(haven::read_sas(file)))"


class SasTransport(_Sas):
    endings = (".xpt",)
    reader = "read_xport"
    r_reads = "as.data.frame(haven::zap_labels(haven::read_xpt(file)))"

    def layout(self, path: Path) -> XportLayout:
        from understudy.survey.labelled.xport import xport_layout

        return xport_layout(path)
