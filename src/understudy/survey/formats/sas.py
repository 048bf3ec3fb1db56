"""SAS data sets (.sas7bdat) and transport files (.xpt): read with their labels, not written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from understudy.errors import Refused
from understudy.survey.labelled.format import Labelled

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.survey.labelled.xport import XportLayout
    from understudy.survey.survey import Survey


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
    r_reads = "as.data.frame(haven::zap_labels(haven::read_sas(file)))"


class SasTransport(_Sas):
    endings = (".xpt",)
    reader = "read_xport"
    r_reads = "as.data.frame(haven::zap_labels(haven::read_xpt(file)))"

    def layout(self, path: Path) -> XportLayout:
        from understudy.survey.labelled.xport import xport_layout

        return xport_layout(path)
