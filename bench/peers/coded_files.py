"""The files of bench/whole_file.py in a public domain of few codes a column: what every peer needs.

Categories have the codes of the survey's documents, numbers are cut at edges that do not depend on
the records, and missing codes and empty values have codes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl


@dataclass(frozen=True, eq=False)
class CodedFile:
    """`codes` from 0 on, and how many each column may have."""

    name: str
    codes: pl.DataFrame
    sizes: dict[str, int]

    def first(self, columns: int) -> CodedFile:
        names = self.codes.columns[:columns]
        sizes = {name: self.sizes[name] for name in names}
        return CodedFile(f"{self.name}, {columns} columns", self.codes.select(names), sizes)


def cut(values: pl.Series, edges: Sequence[float], codes: Sequence[float] = ()) -> np.ndarray:
    """Numbers between edges, then the missing codes, then the empty value."""
    numbers = values.cast(pl.Float64).to_numpy()
    cells = np.searchsorted(np.asarray(edges[1:-1], dtype=float), numbers, side="right")
    for number, code in enumerate(codes):
        cells[numbers == code] = len(edges) - 1 + number
    cells[np.isnan(numbers)] = len(edges) - 1 + len(codes)
    return cells


def levels(values: pl.Series, known: Sequence[object]) -> np.ndarray:
    """The place of each level, the empty value last."""
    places = {level: number for number, level in enumerate(known)}
    return np.array([places.get(value, len(known)) for value in values])


SD2011 = {
    "sex": ["FEMALE", "MALE"],
    "age": (range(15, 101, 5), ()),
    "region": [
        "Dolnoslaskie", "Kujawsko-pomorskie", "Lodzkie", "Lubelskie", "Lubuskie", "Malopolskie",
        "Mazowieckie", "Opolskie", "Podkarpackie", "Podlaskie", "Pomorskie", "Slaskie",
        "Swietokrzyskie", "Warminsko-mazurskie", "Wielkopolskie", "Zachodnio-pomorskie",
    ],
    "edu": [
        "PRIMARY/NO EDUCATION", "VOCATIONAL/GRAMMAR", "SECONDARY", "POST-SECONDARY OR HIGHER",
    ],
    "socprof": [
        "EMPLOYED IN PUBLIC SECTOR", "EMPLOYED IN PRIVATE SECTOR", "FARMER", "SELF-EMPLOYED",
        "PUPIL OR STUDENT", "RETIRED", "LONG-TERM SICK/DISABLED", "OTHER ECONOMICALLY INACTIVE",
        "UNEMPLOYED",
    ],
    "marital": [
        "SINGLE", "MARRIED", "WIDOWED", "DIVORCED", "LEGALLY SEPARATED", "DE FACTO SEPARATED",
    ],
    "income": (
        (0, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000, 4000, 20000), (-8,),
    ),
    "ls": [
        "DELIGHTED", "PLEASED", "MOSTLY SATISFIED", "MIXED", "MOSTLY DISSATISFIED", "UNHAPPY",
        "TERRIBLE",
    ],
    "depress": (range(0, 23, 2), ()),
    "smoke": ["NO", "YES"],
    "nociga": ((0, 5, 10, 15, 20, 30, 100), (-8,)),
    "weight": (range(30, 160, 10), ()),
}  # fmt: skip

ACS = {
    "SEX": (1, 2),
    "AGEP": ((0, 5, 15, 25, 35, 45, 55, 65, 75, 120), ()),
    "SCHL": ((0, 1, 16, 18, 20, 21, 22, 25), ()),
    "RAC1P": range(1, 10),
    "MAR": range(1, 6),
    "ESR": range(1, 7),
    "DIS": (1, 2),
    "CIT": range(1, 6),
    "COW": range(1, 10),
    "HICOV": (1, 2),
    "MIG": (1, 2, 3),
    "MIL": range(1, 5),
    "NATIVITY": (1, 2),
    "PUBCOV": (1, 2),
    "PRIVCOV": (1, 2),
    "LANX": (1, 2),
    "DPHY": (1, 2),
    "DREM": (1, 2),
    "RELP": range(18),
    "WKW": range(1, 7),
    "PINCP": ((-20000, 0, 1, 10000, 20000, 30000, 45000, 60000, 90000, 150000, 4e6), ()),
    "WKHP": ((0, 10, 20, 30, 39, 41, 50, 60, 100), ()),
    "ENG": range(1, 5),
    "POVPIP": ((0, 50, 100, 150, 200, 300, 400, 501, 502), ()),
}


def coded(name: str, frame: pl.DataFrame, columns: dict[str, object]) -> CodedFile:
    codes, sizes = {}, {}
    for column, declared in columns.items():
        if isinstance(declared, tuple) and isinstance(declared[-1], tuple):
            edges, missing = declared
            codes[column] = cut(frame[column], list(edges), missing)
            sizes[column] = len(list(edges)) - 1 + len(missing) + 1
        else:
            codes[column] = levels(frame[column], list(declared))
            sizes[column] = len(list(declared)) + 1
    return CodedFile(name, pl.DataFrame(codes).cast(pl.Int64), sizes)


def real_files(folder: Path) -> list[CodedFile]:
    polish = pl.read_csv(folder / "SD2011.csv", null_values=["NA", ""], infer_schema_length=None)
    hawaii = coded("ACS Hawaii", pl.read_parquet(folder / "acs2018_person_hi.parquet"), ACS)
    return [coded("SD2011, 12 columns", polish, SD2011), *(hawaii.first(k) for k in (8, 20, 24))]
