"""The numbers that paper R prints: Tables 2 to 7, supplement Tables 1 to 3, and IQRs of §3.2.

Its violin and scatter plots print no numbers, so figures have no published column.
"""

from __future__ import annotations

# Tables 5 and supplement 2, the simulation: (U_m, U_a).
SIMULATION_ECDF = {
    "Synthesizer": (0.0451, 0.0006),
    "Marginal r=30%": (0.1061, 0.0040),
    "Marginal r=25%": (0.1124, 0.0045),
    "Marginal r=20%": (0.1152, 0.0048),
    "Marginal r=15%": (0.1088, 0.0043),
    "Pairwise r=15%": (0.0378, 0.0003),
}

# Table 6, the simulation at r = 20 %: (label, L): estimate, lower, upper of mean, then of median.
TABLE_6 = {
    ("Data", 0): (100.70, 98.68, 102.58, 97.93, 95.49, 101.00),
    ("Synthesizer", 30): (100.46, 96.63, 104.34, 97.09, 93.00, 101.00),
    ("Synthesizer", 20): (100.99, 97.28, 104.69, 97.60, 93.00, 101.50),
    ("Synthesizer", 10): (100.95, 97.07, 104.97, 97.36, 93.00, 102.00),
    ("Synthesizer", 5): (99.76, 96.71, 103.33, 96.59, 93.00, 101.00),
    ("Synthesizer", 1): (102.05, 99.97, 104.04, 99.82, 97.00, 102.00),
    ("Marginal r=20%", 30): (102.37, 99.49, 104.87, 101.05, 98.00, 103.50),
    ("Marginal r=20%", 20): (102.60, 100.13, 105.02, 101.37, 98.00, 105.00),
    ("Marginal r=20%", 10): (102.93, 99.92, 105.34, 101.63, 98.00, 105.00),
    ("Marginal r=20%", 5): (102.26, 99.69, 104.64, 101.00, 98.00, 104.00),
    ("Marginal r=20%", 1): (103.78, 102.34, 105.12, 103.15, 101.00, 105.00),
}

# Tables 7 and supplement 1 and 3, the application: (U_m, U_a).
APPLICATION_ECDF = {
    "Synthesizer": (0.0151, 3.6e-05),
    "Marginal": (0.0755, 0.0018),
    "Pairwise": (0.0356, 0.0004),
    "Pairwise c=1.5": (0.0382, 0.0004),
    "Pairwise g=0.1": (0.0286, 0.0002),
}

# Table 4: estimate, lower, upper. Earner 2: not an earner, in a regression of family income.
TABLE_4 = {
    ("Data", "mean"): (72075.60, 70068.61, 74037.96),
    ("Data", "median"): (50225.15, 48995.01, 52000.00),
    ("Data", "quantile 0.9"): (153916.30, 147582.40, 159603.80),
    ("Data", "earner 2"): (-45826.20, -49816.29, -41836.11),
    ("Synthesizer", "mean"): (72377.12, 69639.31, 75284.18),
    ("Synthesizer", "median"): (50538.50, 48410.30, 52673.39),
    ("Synthesizer", "quantile 0.9"): (152597.10, 146203.30, 159957.80),
    ("Synthesizer", "earner 2"): (-46017.29, -50239.20, -41795.37),
    ("Marginal", "mean"): (76641.95, 68431.36, 88069.02),
    ("Marginal", "median"): (54229.08, 51686.27, 57231.27),
    ("Marginal", "quantile 0.9"): (134582.40, 127342.40, 142549.80),
    ("Marginal", "earner 2"): (-34738.85, -46792.90, -22684.81),
}

# Table 2: risks of the ten riskiest records; Table 3: of the ten largest incomes.
# Columns: data, Synthesizer, Marginal, topcoding.
RISK_COLUMNS = ("Data", "Synthesizer", "Marginal", "Topcoding")
TABLE_2 = (
    (0.9944, 0.0000, 0.0000, 0.9894),
    (0.9944, 0.0995, 0.0000, 0.0000),
    (0.9921, 0.1454, 0.0000, 0.9582),
    (0.9915, 0.0000, 0.0496, 0.9926),
    (0.9913, 0.0498, 0.0000, 0.0000),
    (0.9913, 0.1469, 0.0000, 0.9852),
    (0.9913, 0.0491, 0.0000, 0.9707),
    (0.9910, 0.0000, 0.0000, 0.0000),
    (0.9910, 0.1471, 0.0000, 0.9894),
    (0.9910, 0.0000, 0.0000, 0.0000),
)
TABLE_3 = (
    (0.9910, 0.0000, 0.0000, 0.0000),
    (0.9643, 0.0499, 0.0000, 0.0000),
    (0.9600, 0.0000, 0.0000, 0.0000),
    (0.9820, 0.0000, 0.0000, 0.0000),
    (0.9913, 0.0498, 0.0000, 0.0000),
    (0.9565, 0.0995, 0.0000, 0.9955),
    (0.9910, 0.0000, 0.0000, 0.0000),
    (0.9872, 0.0994, 0.0000, 0.0000),
    (0.9944, 0.0995, 0.0000, 0.0000),
    (0.9908, 0.0000, 0.0482, 0.0000),
)

RISK_IQR = {"Marginal": 0.1534, "Pairwise": 0.1385}  # §3.2.1
