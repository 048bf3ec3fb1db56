"""What paper V says of its simulation. Its figures print no numbers; §4.1 and §4.2 state these."""

from __future__ import annotations

TRUE_TOTAL = 99_984_562
UNWEIGHTED_TOTAL = 117_000_000  # N times the unweighted mean, "around"

# Figure 2, by alpha: what r_full and the posterior medians are said to be.
ADJUSTED = {
    1.0: ("typically around 0.3", "typically around 0.3"),
    3.0: ("between 0.5 and 0.75", "the majority larger than r_full"),
    5.0: ("above 0.8", "above 0.8"),
}
FIXED = "always much smaller than r_full"
BIASED = "close to 0"

# The claims, and the section that makes them.
CLAIMS = {
    "fixed": "Fixed intervals: the medians are always much smaller than r_full (§4.1, Figure 1).",
    "adjusted": "Adjusted intervals: the medians are close to r_full (§4.1, Figure 2).",
    "size": "Smaller n_k goes with larger r_full and larger medians (§4.1).",
    "partitions": "M hardly moves the mean of the medians, and a larger M narrows them (§4.1).",
    "biased": "Biased synthesis: r_full and the medians are close to 0 (§4.2, Figure 3).",
    "mean": "Means behave as totals do (§4.3, Figures 4 and 5).",
}
