"""The numbers that paper C prints: Tables 1, 2 and 3, and the ranges that its §4.2 states.

Its violin plots print no numbers, so figures have no published column beyond these ranges.
"""

from __future__ import annotations

COUNT_SUMMARY = ("min", "Q1", "median", "mean", "Q3", "max", "sd")

# Records (of 2000) with a truncated weight or a censored likelihood: (mechanism, epsilon).
TABLE_1 = {
    ("Weighted-e", 5.0): (0, 0, 0, 29, 55, 166, 48.80),
    ("Censor_w", 5.0): (0, 0, 0, 110, 260, 341, 129.59),
    ("Censor_uw", 5.0): (196, 236, 244, 247, 255, 296, 17.44),
    ("Weighted-e", 4.0): (0, 130, 219, 195, 272, 364, 103.48),
    ("Censor_w", 4.0): (0, 404, 425, 408, 440, 549, 92.56),
    ("Censor_uw", 4.0): (340, 398, 419, 419, 435, 481, 26.73),
    ("Weighted-e", 3.0): (400, 536, 574, 573, 618, 684, 60.62),
    ("Censor_w", 3.0): (655, 715, 741, 741, 763, 831, 35.66),
    ("Censor_uw", 3.0): (737, 787, 806, 809, 829, 888, 32.85),
}

# The same without and with downscaling, at epsilon 4: (mechanism, c1).
TABLE_3 = {
    ("Weighted-e", 1.0): (0, 130, 219, 195, 272, 364, 103.48),
    ("Censor_w", 1.0): (0, 404, 425, 408, 440, 549, 92.56),
    ("Weighted-e", 0.8): (0, 0, 93, 91, 165, 269, 86.49),
    ("Censor_w", 0.8): (0, 0, 0, 144, 328, 413, 165.66),
}

# §4.2: "ranging from around" the first to the second, over 100 replicates (Figure 10).
BOUND_RANGES = {"Unweighted": (7.5, 15.0), "Weighted": (2.0, 3.5)}

# Table 2, the application at epsilon 5. The rows, then a column for each mechanism.
TABLE_2_ROWS = (
    "Lipschitz",
    "Privacy epsilon",
    "max-ECDF",
    "avg-ECDF",
    "Mean",
    "Median",
    "15th Q",
    "90th Q",
)
TABLE_2: dict[str, tuple[float | None, ...]] = {
    "Data": (None, None, None, None, 91019, 80000, 51000, 150000),
    "Weighted": (2.62, 5.24, 0.0656, 0.0011, 92994, 80135, 44303, 162351),
    "Weighted-e": (2.61, 5.22, 0.1020, 0.0025, 89525, 76451, 40574, 158037),
    "Censor_w": (2.50, 5.00, 0.0968, 0.0026, 88581, 75642, 41142, 158426),
    "Censor_uw": (2.50, 5.00, 0.1350, 0.0039, 88840, 75211, 38107, 162686),
    "PH": (None, 5.00, 0.1310, 0.0057, 93654, 91180, 30108, 163872),
}
