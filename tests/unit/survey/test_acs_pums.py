"""ACS person PUMS as in report M, Table 3.1: each recode, each counted step."""

from __future__ import annotations

import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.acs_pums import NEEDED, VARIABLES, acs_codebook, household_type, prepare_acs
from understudy.survey.acs_pums_codes import BIRTHPLACES, OCCUPATIONS
from understudy.tables.cross_table import categories_of, cross_tabulate, without_impossible

# M Table 3.1: number of classes, with the income indicators and AWAG of §1.2.3
CLASSES = {
    "CIT": 5, "HIS": 6, "MAR": 5, "MIL": 4, "OCC": 14, "OI": 2, "POB": 21, "RET": 2, "SCHL": 6,
    "SEM": 2, "SEX": 2, "SS": 2, "AWAG": 4, "HICOV": 2, "POV": 2, "CAGE": 10, "VETSTAT": 3,
    "HHT": 7,
}  # fmt: skip

PERSON = {
    "SERIALNO": 1, "RELP": 0, "AGEP": 40, "SEX": 1, "CIT": 1, "HISP": 1, "RAC1P": 1, "MAR": 1,
    "MIL": 4.0, "OCCP": "0010", "POBP": 44, "SCHL": 21.0, "HICOV": 1, "POVPIP": 300.0,
    "WAGP": 50_000.0, "SEMP": 0.0, "RETP": 0.0, "SSP": 0.0, "OIP": 0.0, "PINCP": 50_000.0,
    "ADJINC": 1_000_000,
}  # fmt: skip


def people(*changes: dict) -> pl.DataFrame:
    rows = [
        {**PERSON, "SERIALNO": number, **change} for number, change in enumerate(changes, start=1)
    ]
    return pl.DataFrame(rows, schema_overrides={"OCCP": pl.String})


def recoded(name: str, **changes) -> int:
    return prepare_acs(people(changes)).survey.frame()[name][0]


def test_the_codebook_has_the_classes_of_the_report():
    codebook = acs_codebook()
    assert {column.name: len(column.levels) for column in codebook} == CLASSES
    assert tuple(CLASSES) == VARIABLES
    assert all(set(column.value_labels) == set(column.levels) for column in codebook)
    assert all(column.declared("levels") for column in codebook)


@pytest.mark.parametrize(
    ("name", "changes", "level"),
    [
        ("HIS", {"HISP": 2, "RAC1P": 2}, 5),
        ("HIS", {"RAC1P": 2}, 2),
        ("HIS", {"RAC1P": 5}, 3),
        ("HIS", {"RAC1P": 7}, 4),
        ("HIS", {"RAC1P": 9}, 6),
        ("OCC", {"OCCP": "0440"}, 1),
        ("OCC", {"OCCP": "1005"}, 3),
        ("OCC", {"OCCP": "3655"}, 6),
        ("OCC", {"OCCP": "9920"}, 14),
        ("POB", {"POBP": 72, "CIT": 2}, 2),
        ("POB", {"POBP": 110, "CIT": 4}, 4),
        ("POB", {"POBP": 207, "CIT": 4}, 7),
        ("POB", {"POBP": 233, "CIT": 5}, 9),
        ("POB", {"POBP": 303, "CIT": 5}, 12),
        ("POB", {"POBP": 168, "CIT": 4}, 5),
        ("POB", {"POBP": 463, "CIT": 5}, 15),
        ("POB", {"POBP": 456, "CIT": 5}, 17),
        ("POB", {"POBP": 554, "CIT": 5}, 21),
        ("SCHL", {"SCHL": 15.0}, 1),
        ("SCHL", {"SCHL": 16.0}, 2),
        ("SCHL", {"SCHL": 19.0}, 3),
        ("SCHL", {"SCHL": 20.0}, 4),
        ("SCHL", {"SCHL": 21.0}, 5),
        ("SCHL", {"SCHL": 24.0}, 6),
        ("CAGE", {"AGEP": 18}, 1),
        ("CAGE", {"AGEP": 24}, 1),
        ("CAGE", {"AGEP": 25}, 2),
        ("CAGE", {"AGEP": 64}, 9),
        ("CAGE", {"AGEP": 65}, 10),
        ("CAGE", {"AGEP": 95}, 10),
        ("AWAG", {"WAGP": 0.0, "PINCP": 0.0}, 1),
        ("AWAG", {"WAGP": 60_000.0, "PINCP": 60_000.0}, 2),
        ("AWAG", {"WAGP": 60_000.0, "PINCP": 60_000.0, "ADJINC": 1_010_000}, 3),
        ("AWAG", {"WAGP": 250_001.0, "PINCP": 250_001.0}, 4),
        ("SS", {"SSP": 900.0, "PINCP": 50_900.0}, 1),
        ("SS", {}, 0),
        ("SEM", {"SEMP": 5.0, "PINCP": 50_005.0}, 1),
        ("POV", {"POVPIP": 99.0}, 1),
        ("POV", {"POVPIP": 100.0}, 0),
        ("VETSTAT", {"MIL": 2.0}, 1),
        ("VETSTAT", {"MIL": 1.0}, 2),
        ("VETSTAT", {"MIL": 3.0}, 3),
    ],
)
def test_recodes(name, changes, level):
    assert recoded(name, **changes) == level


def test_household_types_from_relationships():
    rows = [
        # (household, RELP, SEX) and the household's type
        (1, 0, 1, 1), (1, 1, 2, 1), (1, 2, 1, 1),  # with a spouse
        (2, 0, 1, 2), (2, 2, 2, 2),  # man with a child
        (3, 0, 2, 3), (3, 10, 1, 3), (3, 12, 1, 3),  # woman with another relative
        (4, 0, 1, 4),
        (5, 0, 1, 5), (5, 13, 2, 5),  # man with an unmarried partner
        (6, 0, 2, 6),
        (7, 0, 2, 7), (7, 11, 2, 7),
        (8, 16, 1, None), (9, 17, 2, None),  # group quarters
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["SERIALNO", "RELP", "SEX", "type"], orient="row")
    assert household_type(frame).to_list() == frame["type"].to_list()


def test_every_step_is_counted():
    frame = people(
        {},
        {"OCCP": None},
        {"RELP": 17},
        {"PINCP": 50_100.0},
        {"SEMP": -10.0, "PINCP": 49_990.0},
        {"AGEP": 17},
        {"AGEP": 18},
    )
    prepared = prepare_acs(frame)
    assert [step.records for step in prepared.steps] == [7, 5, 4, 3, 2]
    assert prepared.survey.n == 2
    assert "18 years or older" in str(prepared)


def test_classes_of_codes_do_not_overlap():
    codes = [code for each in BIRTHPLACES.values() for code in each]
    assert len(codes) == len(set(codes))
    starts, ends = ([row[k] for row in OCCUPATIONS] for k in (1, 2))
    assert [1, *(end + 1 for end in ends)] == [*starts, 10_000]  # every code is in one of them
    assert [number for number, _, _ in OCCUPATIONS] == list(range(1, 15))


# POBP outside the states, as the PUMS dictionary of 2018 lists it
ABROAD = """
60 66 69 72 78 100 102-106 108-110 116-120 126-130 132 134 136-140 142 147-152 154 156-169 200 202
203 205-219 222-224 226 228 229 231 233 235 236 238-240 242 243 245-249 253 254 300 301 303 310-316
321 323 324 327-330 332 333 338-341 343 344 360-365 368-370 372-374 399 400 407 408 412 414 416 417
420 421 423 425 427 429 430 436 440 442 444 447-449 451 453 454 456 457 459-464 467-469 501 508 511
512 515 523 527 554
"""


def test_every_place_of_birth_in_the_dictionary_has_its_class():
    spans = [[int(end) for end in span.split("-")] for span in ABROAD.split()]
    codes = {code for span in spans for code in range(span[0], span[-1] + 1)}
    listed = {code for number, each in BIRTHPLACES.items() if number > 1 for code in each}
    assert listed == codes


def test_refusals():
    with pytest.raises(Refused, match="Unknown column of the ACS person file `POVPIP`"):
        prepare_acs(people({}).drop("POVPIP"))
    with pytest.raises(Refused, match="No record is left after the step `18 years"):
        prepare_acs(people({"AGEP": 3}))


def test_real_pums_records(shared_data):
    """Hawaii and Rhode Island 2018: 24,889 person records as the Census Bureau ships them."""
    frames = [
        pl.read_parquet(shared_data / f"acs2018_person_{state}.parquet", columns=list(NEEDED))
        for state in ("hi", "ri")
    ]
    listed = [code for each in BIRTHPLACES.values() for code in each]
    assert set(pl.concat(frames)["POBP"]) <= set(listed)
    prepared = prepare_acs(pl.concat(frames))
    assert [step.records for step in prepared.steps] == [24_889, 14_350, 12_020, 11_983, 11_868]
    frame = prepared.survey.frame()
    assert frame.columns == list(VARIABLES)
    assert sum(frame.null_count().row(0)) == 0
    levels = {name: frame[name].n_unique() for name in VARIABLES}
    assert levels == CLASSES
    table = cross_tabulate(prepared.survey, categories_of(prepared.survey, VARIABLES))
    assert without_impossible(table, prepared.survey).n == 11_868
