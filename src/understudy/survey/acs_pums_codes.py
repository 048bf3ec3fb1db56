"""Classes of the ACS recodes (M §1.2.2, Table 3.1): occupations, places of birth, labels.

Codes are those of the 2018 person PUMS dictionary. The report names the 21 regions of birth but not
which country lies in which, and gives the number of occupation groups only: see docs/known-limits.
"""

from __future__ import annotations

# (class, first code, last code): unions of the Census Bureau's major occupation groups.
OCCUPATIONS = (
    (1, 1, 499),
    (2, 500, 999),
    (3, 1000, 1999),
    (4, 2000, 2199),
    (5, 2200, 2999),
    (6, 3000, 3699),
    (7, 3700, 3999),
    (8, 4000, 4699),
    (9, 4700, 4999),
    (10, 5000, 5999),
    (11, 6000, 6199),
    (12, 6200, 7699),
    (13, 7700, 9799),
    (14, 9800, 9999),
)

# class -> POBP codes; regions as the United Nations draw them, which is what M's list follows.
BIRTHPLACES: dict[int, tuple[int, ...]] = {
    1: tuple(range(1, 57)),
    2: (60, 66, 69, 72, 78),
    3: (106, 108, 118, 119, 127, 136, 138, 139, 140, 142, 156, 157),
    4: (102, 103, 109, 110, 126, 137),
    5: (100, 116, 120, 129, 130, 134, 147, 150, 151, 152, 154, 167, 168),
    6: (104, 105, 117, 128, 132, 148, 149, 160, 162, 163, 164, 165),
    7: (207, 209, 215, 217, 228, 240),
    8: (200, 202, 203, 210, 212, 218, 219, 229, 231, 238, 246, 253),
    9: (205, 206, 211, 223, 226, 233, 236, 242, 247),
    10: (158, 159, 161, 208, 213, 214, 216, 222, 224, 235, 239, 243, 245, 248),
    11: (300, 301),
    12: (303, 310, 311, 312, 313, 314, 315, 316),
    13: (321, 323, 324, 327, 328, 329, 330, 332, 333, 338, 339, 340, 341, 343, 344),
    14: (360, 361, 362, 363, 364, 365, 368, 369, 370, 372, 373, 374),
    15: (416, 417, 427, 442, 448, 453, 457, 460, 461, 463, 469),
    16: (407, 412, 459),
    17: (400, 414, 430, 436, 451, 456, 464),
    18: (449,),
    19: (408, 420, 421, 423, 425, 429, 440, 444, 447, 454, 467),
    20: (501, 508, 511, 512, 515, 523, 527),
    21: (166, 169, 249, 254, 399, 462, 468, 554),  # a continent only, or at sea
}

_NONE_SOME = {0: "none", 1: "some"}

# column -> (label, {level: label}), in the order of M Table 3.1
LABELS: dict[str, tuple[str, dict[int, str]]] = {
    "CIT": (
        "Citizenship",
        {
            1: "born in the US",
            2: "born in Puerto Rico or US islands",
            3: "born abroad of American parents",
            4: "naturalized",
            5: "not a citizen",
        },
    ),
    "HIS": (
        "Hispanic origin and race",
        {
            1: "White",
            2: "Black",
            3: "Native American",
            4: "Asian or Pacific Islander",
            5: "Hispanic",
            6: "Other",
        },
    ),
    "MAR": (
        "Marital status",
        {1: "married", 2: "widowed", 3: "divorced", 4: "separated", 5: "never married"},
    ),
    "MIL": (
        "Served in armed forces",
        {1: "on active duty", 2: "in the past", 3: "training only", 4: "never"},
    ),
    "OCC": (
        "Occupation",
        {
            1: "management",
            2: "business and finance",
            3: "computers, engineering, science",
            4: "community service and law",
            5: "education, arts, media",
            6: "health",
            7: "protective service",
            8: "food, cleaning, personal service",
            9: "sales",
            10: "office",
            11: "farming, fishing, forestry",
            12: "construction, extraction, repair",
            13: "production and transportation",
            14: "military, or none in five years",
        },
    ),
    "OI": ("Other income", _NONE_SOME),
    "POB": (
        "Place of birth",
        {
            1: "United States",
            2: "US islands and Puerto Rico",
            3: "Northern Europe",
            4: "Western Europe",
            5: "Southern Europe",
            6: "Eastern Europe",
            7: "Eastern Asia",
            8: "South Central Asia",
            9: "South Eastern Asia",
            10: "Western Asia",
            11: "Northern America",
            12: "Latin America",
            13: "Caribbean",
            14: "South America",
            15: "Eastern Africa",
            16: "Middle Africa",
            17: "Northern Africa",
            18: "Southern Africa",
            19: "Western Africa",
            20: "Oceania",
            21: "at sea, abroad, not reported",
        },
    ),
    "RET": ("Retirement income", _NONE_SOME),
    "SCHL": (
        "Educational attainment",
        {
            1: "less than high school",
            2: "high school or GED",
            3: "some college",
            4: "associate",
            5: "bachelor",
            6: "advanced degree",
        },
    ),
    "SEM": ("Self-employment income", _NONE_SOME),
    "SEX": ("Gender", {1: "male", 2: "female"}),
    "SS": ("Social security or railroad retirement income", _NONE_SOME),
    "AWAG": (
        "Adjusted wages",
        {1: "0", 2: "up to 60,000", 3: "up to 250,000", 4: "over 250,000"},
    ),
    "HICOV": ("Any health insurance", {1: "yes", 2: "no"}),
    "POV": ("In poverty", {0: "no", 1: "yes"}),
    "CAGE": (
        "Age",
        {
            1: "18-24",
            2: "25-29",
            3: "30-34",
            4: "35-39",
            5: "40-44",
            6: "45-49",
            7: "50-54",
            8: "55-59",
            9: "60-64",
            10: "65 and over",
        },
    ),
    "VETSTAT": ("Veteran status", {1: "veteran", 2: "on active duty", 3: "not a veteran"}),
    "HHT": (
        "Household type",
        {
            1: "married couple",
            2: "other family, male householder",
            3: "other family, female householder",
            4: "man alone",
            5: "man with others",
            6: "woman alone",
            7: "woman with others",
        },
    ),
}
