"""The page of bench/models_worth.py: a table, a figure for each file, and a sentence of advice.

    python -m bench.models_worth_page

Writes docs/results/models/README.md and an SVG for each file, from runs.csv beside them alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FormatStrFormatter

import understudy as us
from bench.models_worth import EPSILONS, FILES, KEPT, Run, read_runs

FOLDER = KEPT.parent
NEAR = 1.25  # times the least error of a setting with a claim: as good as the best
STYLES = {"FBS": "-", "FBP": "--", "WholeFile": "-", "Beta": ":", "Mixture": "-."}
COLOURS = dict(
    zip(
        ("Unweighted", "Weighted", "NoisyMoments", "past file", "no history", "Marginals"),
        us.COLOURS,
        strict=False,
    )
)
MEASURES = {"counts": "Counts", "means": "Means"}
HEAD = """# Where models are worth it

Written by `bench/models_worth_page.py` from [runs.csv](runs.csv), which `bench/models_worth.py`
fills, one row a run. Each file is a population: a sample of it is the confidential file, as many
other records are the past file. Count and mean of one amount are looked at in the cells of two
columns; errors are relative root mean squared errors over the cells with 30 expected records or
more, divided by that of the sample itself: 1 is as good as the sample. `past file` and `no history`
are ReferenceCensored with and without one, three files each; NoisyMoments and WholeFile (under
Marginals, delta 1e-9) have five. Unweighted and Weighted have no epsilon that was asked for. In
brackets: how many 95 % intervals cover. There is one sample of each file, so that figures which lie
near each other are not told apart. Settings without a row, and cells with a dash, were not run.

"""


def errors(run: Run) -> dict[str, float]:
    """Both errors over the sample's own."""
    assert None not in (run.counts, run.own_counts, run.means, run.own_means)
    return {"counts": run.counts / run.own_counts, "means": run.means / run.own_means}  # type: ignore[operator]


def worst(run: Run) -> float:
    """The mean of both: what a setting is judged by."""
    return fmean(errors(run).values())


def released(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.outcome == "released"]


def averaged(runs: Sequence[Run]) -> dict[tuple[str, str, float | None], float]:
    """The judged error of each setting, over replicates."""
    sums: dict[tuple[str, str, float | None], list[float]] = defaultdict(list)
    for run in released(runs):
        sums[run.model, run.mechanism, run.epsilon].append(worst(run))
    return {setting: fmean(values) for setting, values in sums.items()}


def advice(runs: Sequence[Run]) -> str:
    """What did best at each epsilon among settings with a claim, and what came near it."""
    parts = []
    for epsilon in sorted(EPSILONS):
        means = {key: value for key, value in averaged(runs).items() if key[2] == epsilon}
        if len(means) < 2:
            continue
        least = min(means.values())
        near = sorted((v, k) for k, v in means.items() if v <= NEAR * least)
        words = ", ".join(f"{model} ({mechanism})" for _, (model, mechanism, _) in near)
        parts.append(f"at epsilon {epsilon:g} {words}, {least:.2g} times the sample's error")
    if not parts:
        return "Too few runs for advice."
    return f"Take what did best: {'; '.join(parts)}."


def figure(name: str, runs: Sequence[Run]) -> Figure:
    """Error over the sample's own by epsilon; settings without one are level lines."""
    made = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = made.subplots(1, 2, sharey=True)
    lines: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in released(runs):
        lines[run.model, run.mechanism].append(run)
    for axis, (measure, title) in zip(axes, MEASURES.items(), strict=True):
        for (model, mechanism), of_line in lines.items():
            looks = {"color": COLOURS[mechanism], "linestyle": STYLES[model]}
            label = f"{model}, {mechanism}"
            ordered = sorted(of_line, key=lambda run: run.epsilon or 0.0)
            heights = [errors(run)[measure] for run in ordered]
            if ordered[0].epsilon is None:
                axis.axhline(fmean(heights), linewidth=0.8, alpha=0.7, label=label, **looks)
            else:
                epsilons = [run.epsilon for run in ordered]
                axis.plot(epsilons, heights, marker="o", markersize=3, label=label, **looks)
        axis.axhline(1.0, color="#222222", linewidth=0.6)
        axis.set(xscale="log", yscale="log", xlabel="epsilon", title=title)
        axis.set_xlim(min(EPSILONS) * 0.8, max(EPSILONS) * 1.25)
        axis.set_xticks(sorted(EPSILONS), [f"{epsilon:g}" for epsilon in sorted(EPSILONS)])
        axis.set_ylim(0.4, max(2.5, *(1.1 * max(errors(run).values()) for run in released(runs))))
        axis.minorticks_off()
        axis.yaxis.set_major_locator(FixedLocator([0.5, 1, 2, 4, 8, 16, 32]))
        axis.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes[0].set_ylabel("error over the sample's own")
    handles, labels = axes[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside right center", frameon=False, fontsize=7)
    made.suptitle(name)
    return made


def cell(runs: Sequence[Run]) -> str:
    done = released(runs)
    if done:
        counts, means = (fmean(errors(run)[measure] for run in done) for measure in MEASURES)
        covered = fmean(run.covered or 0.0 for run in done)
        return f"{counts:.2g}, {means:.2g} ({covered:.2f})"
    return runs[0].outcome if runs else "-"


def table(runs: Sequence[Run]) -> list[str]:
    """A row for each setting: counts, means (coverage); U_m and seconds, over its runs."""
    shown = sorted(EPSILONS)
    lines = [
        "| model | mechanism | "
        + " | ".join(f"epsilon {epsilon:g}" for epsilon in shown)
        + " | no epsilon | U_m | CPU seconds |",
        "|" + "---|" * (len(shown) + 5),
    ]
    settings = dict.fromkeys((run.model, run.mechanism) for run in runs)
    for model, mechanism in settings:
        of_setting = [run for run in runs if (run.model, run.mechanism) == (model, mechanism)]
        cells = [cell([r for r in of_setting if r.epsilon == e]) for e in (*shown, None)]
        done = released(of_setting)
        last = (
            [
                _range([run.U_m or 0.0 for run in done], 2),
                _range([run.seconds or 0.0 for run in done], 0),
            ]
            if done
            else ["-", "-"]
        )
        lines.append("| " + " | ".join((model, mechanism, *cells, *last)) + " |")
    return lines


def _range(values: Sequence[float], digits: int) -> str:
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def not_run(runs: Sequence[Run]) -> list[str]:
    """Each reason once, with the settings that it stands against."""
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for run in runs:
        if run.outcome != "released":
            at = "" if run.epsilon is None else f" at {run.epsilon:g}"
            reasons[run.words][f"{run.model} ({run.mechanism}){at}"] = None
    return [f"- {', '.join(settings)}: {words}" for words, settings in reasons.items()]


def file_name(name: str) -> str:
    return f"{name.lower().replace(' ', '-')}.svg"


def page(runs: Sequence[Run]) -> str:
    text = HEAD
    for name, file in FILES.items():
        own = [run for run in runs if run.file == name]
        if not released(own):
            continue
        about = f"`{file.y}` by {' and '.join(file.by)}, n = {own[0].n:,}"
        lines = [f"## {name}", about, f"![Errors]({file_name(name)})", advice(own)]
        text += "\n\n".join(lines) + "\n\n" + "\n".join(table(own)) + "\n\n"
        if reasons := not_run(own):
            text += "Without a result:\n\n" + "\n".join(reasons) + "\n\n"
    return text.rstrip() + "\n"


def main() -> None:
    runs = read_runs()
    (FOLDER / "README.md").write_text(page(runs), encoding="utf-8")
    with us.house_style(), rc_context({"svg.hashsalt": "models", "svg.fonttype": "none"}):
        for name in FILES:
            own = [run for run in runs if run.file == name]
            if released(own):
                path = FOLDER / file_name(name)
                figure(name, own).savefig(path, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
