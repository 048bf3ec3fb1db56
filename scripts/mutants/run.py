"""Run the mutants of a room: each must turn a test of that room red.

    python scripts/mutants/run.py tables dp      (`make mutants ROOM="tables dp"`)

Two steps. First the room's tests run once under coverage, which says which test reaches which
line and how long it takes. Then every mutant of the sample is run in a fork of this process,
which has loaded the libraries but nothing of Understudy: the fork compiles the changed module,
runs the tests that reach the changed line, cheapest first, and stops at the first red one. A
mutant that runs into its limit of processor time counts as killed; one that no test reaches
counts as survived. Both steps are kept in build/mutants: what is killed stays killed until its
line changes, so a stopped run goes on where it was, and a run after new tests retries survivors.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import shutil
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "understudy"
BUILD = ROOT / "build" / "mutants"
LOG = BUILD / "coverage.log"
DOCUMENT = ROOT / "docs" / "testing.md"
sys.path.insert(0, str(HERE))

from mutants import Mutant, mutants, mutated, sample  # noqa: E402

SEED = 1
SAMPLE = 150
BUDGET = 40.0  # seconds of processor time: tests beyond it are not run
SHARED = "fixture "  # begins the context of what tests share
ASLEEP = 120.0  # seconds without any processor time after which a mutant is ended
TURN = 4  # tests of a file before it is another file's turn
AS_THE_MAKEFILE = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
RUNNING = int(os.environ.get("MUTANTS_AT_ONCE", "2"))

# The tests of each room. A room without an entry has tests/unit/ROOM.
TESTS: dict[str, tuple[str, ...]] = {
    "tables": (
        *("tests/unit/tables", "tests/unit/test_influence.py"),
        *("tests/unit/test_corrected_table.py", "tests/reference"),
    ),
    "dp": ("tests/unit/dp", "tests/statistical/test_audit_counts.py"),
    "mechanisms": ("tests/unit/mechanisms", "tests/unit/release/test_mixed.py"),
    "models": ("tests/unit/models", "tests/statistical/test_mixture_sampler.py"),
    "fitting": ("tests/unit/fitting",),
    "risk": ("tests/unit/risk",),
    "utility": ("tests/unit/utility",),
    "verify": ("tests/unit/verify",),
    "ledger": ("tests/unit/ledger",),
    "claim": ("tests/unit/test_claim.py",),
    "influence": ("tests/unit/test_influence.py",),
    "corrected_table": ("tests/unit/test_corrected_table.py",),
    "audit": (
        *("tests/unit/audit", "tests/statistical/test_audit.py"),
        *("tests/statistical/test_audit_counts.py", "tests/statistical/test_audit_households.py"),
        "tests/statistical/test_audit_noisy_moments.py",
    ),
    "survey": ("tests/unit/survey", "tests/reference/test_calibrated.py"),
    "release": ("tests/unit/release",),
    "web": ("tests/unit/web",),
}
# Drawings and sentences hold no formulas; a wrong word is found by readers.
NO_FORMULAS = {"figure.py", "plan_figure.py", "charts.py", "words.py"}
# What a fork finds loaded. BlackJAX is not among them: its import starts JAX's threads.
LIBRARIES = (
    *("pytest", "hypothesis", "numpy", "scipy.stats", "scipy.optimize", "polars", "pandas"),
    *("pyarrow.parquet", "duckdb", "ibis", "jax.numpy", "numpyro", "arviz", "opendp.prelude"),
    *("formulaic", "pydantic", "fastapi.testclient", "matplotlib.pyplot", "typer.testing"),
    *("jinja2", "pyreadstat", "pytest_timeout", "_hypothesis_pytestplugin"),
    *("anyio.pytest_plugin", "schemathesis.pytest.plugin"),
)


# --- what a room is ---------------------------------------------------------------------------


def files_of(room: str) -> list[Path]:
    alone = SOURCE / f"{room}.py"
    paths = [alone] if alone.exists() else sorted((SOURCE / room).rglob("*.py"))
    return [path for path in paths if path.name not in NO_FORMULAS]


def sample_of(room: str) -> list[Mutant]:
    candidates = [m for path in files_of(room) for m in mutants(path, _below_source(path))]
    return sample(candidates, SAMPLE, SEED)


def equivalent() -> dict[str, str]:
    """Name of a mutant -> why no test can tell it from the original."""
    listed = tomllib.loads((HERE / "equivalent.toml").read_text(encoding="utf-8"))
    names = ("file", "code", "change", "function")
    return {
        "|".join((*(e[name] for name in names), str(e.get("copy", 0)))): e["reason"]
        for e in listed.get("mutant", [])
    }


def _below_source(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


# --- which test reaches which line --------------------------------------------------------------


def reach_of(room: str) -> dict[str, Any]:
    """{test: {"seconds": s, "lines": {file: [...]}}}, measured anew for test files that changed or
    that ran a module that changed."""
    store = BUILD / f"{room}.reach.json"
    kept: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {"files": {}}
    source = {_below_source(path): _digest(path) for path in files_of(room)}
    tests = [ROOT / name for name in TESTS[room] if (ROOT / name).exists()]
    test_files = [f for t in tests for f in ([t] if t.is_file() else sorted(t.rglob("test_*.py")))]
    for file in test_files:
        name, digest = file.relative_to(ROOT).as_posix(), _digest(file)
        known = kept["files"].get(name, {})
        ran = known.get("ran", {})
        if known.get("digest") != digest or ran.items() - source.items():
            print(f"  coverage of {name}", flush=True)
            part = BUILD / f"{room}.part.json"
            part.unlink(missing_ok=True)
            _forked(lambda file=file, part=part: _cover(room, file, part), 1200)
            if not part.exists():
                raise SystemExit(f"The tests did not run; {LOG} says why.")
            measured = json.loads(part.read_text())
            for line in LOG.read_text().splitlines():
                if line.startswith("left out"):
                    print(f"    {line}", flush=True)
            part.unlink()
            ran = {file: source[file] for test in measured.values() for file in test["lines"]}
            kept["files"][name] = {"digest": digest, "ran": ran, "tests": measured}
            store.write_text(json.dumps(kept))
    present = {file.relative_to(ROOT).as_posix() for file in test_files}
    return {
        test: facts
        for name, part in kept["files"].items()
        if name in present
        for test, facts in part["tests"].items()
    }


def _cover(room: str, file: Path, out: Path) -> int:
    import coverage
    import pytest

    cover = coverage.Coverage(
        data_file=None, include=[str(p) for p in files_of(room)], config_file=False
    )
    seconds: dict[str, float] = {}  # of processor time: the machine may be busy
    fixtures: dict[str, list[str]] = {}  # of each test
    red: set[str] = set()

    class Contexts:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Function) -> Any:
            fixtures[item.nodeid] = item.fixturenames
            cover.switch_context(item.nodeid)
            began = time.process_time()
            result = yield
            seconds[item.nodeid] = time.process_time() - began
            cover.switch_context("")
            return result

        @pytest.hookimpl(wrapper=True)
        def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
            """What tests share is run under the first of them and seen by all."""
            if fixturedef.scope == "function":
                return (yield)
            cover.switch_context(SHARED + fixturedef.argname)
            try:
                return (yield)
            finally:
                cover.switch_context(request._pyfuncitem.nodeid)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if not report.passed:
                red.add(report.nodeid)

    cover.start()
    code = pytest.main([*_options("cover"), str(file)], plugins=[Contexts()])
    cover.stop()
    data = cover.get_data()
    tests: dict[str, Any] = {
        test: {"seconds": round(s, 3), "lines": {}}
        for test, s in seconds.items()
        if test not in red
    }
    part_of = {test: {test, *(SHARED + name for name in fixtures[test])} for test in tests}
    for measured in data.measured_files():
        name = _below_source(Path(measured))
        for line, contexts in data.contexts_by_lineno(measured).items():
            for test in tests:
                if not part_of[test].isdisjoint(contexts):
                    tests[test]["lines"].setdefault(name, []).append(line)
    for test in sorted(red):
        print(f"left out, for it is red or skipped without any mutant: {test}")
    out.write_text(json.dumps(tests))
    return int(code)


def tests_for(mutant: Mutant, reach: dict[str, Any]) -> list[str]:
    """The tests that run the changed statement, cheapest first, as far as the budget goes.

    A statement that runs at import is seen by the test files that run something of its module, or
    that import it: what a class declares is not a line that a test runs.
    """
    first, last = mutant.reach
    lines = {test: facts["lines"].get(mutant.file, []) for test, facts in reach.items()}
    hit = [test for test in reach if any(first <= line <= last for line in lines[test])]
    if not mutant.function:
        module = ".".join(("understudy", *Path(mutant.file).with_suffix("").parts))
        every = {test.split("::")[0] for test in reach}
        test_files = {test.split("::")[0] for test in reach if lines[test]}
        test_files |= {name for name in every if f"{module} import" in (ROOT / name).read_text()}
        hit = [test for test in reach if not test_files or test.split("::")[0] in test_files]

    chosen, spent = [], 0.0
    for test in sorted(hit, key=_order(hit, reach)):
        spent += reach[test]["seconds"]
        if chosen and spent > BUDGET:
            break
        chosen.append(test)
    return chosen


def _order(hit: list[str], reach: dict[str, Any]) -> Callable[[str], tuple[Any, ...]]:
    """Cheap tests before dear ones, and of those that cost about the same a few of each file in
    turn, which share fixtures; tests for which a database server is started come last."""
    steps = {
        test: next(step for step in (0.1, 1, 3, 10, 30, 1e9) if reach[test]["seconds"] < step)
        for test in hit
    }
    taken: Counter[tuple[float, str]] = Counter()
    turns = {}
    for test in sorted(hit, key=lambda test: hashlib.sha256(test.encode()).hexdigest()):
        of_file = steps[test], test.split("::")[0]
        turns[test] = taken[of_file] // TURN
        taken[of_file] += 1
    return lambda test: ("[postgresql" in test, steps[test], turns[test], test)


# --- one mutant ---------------------------------------------------------------------------------


class MutatedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import the one changed module from its tree."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = SOURCE / mutant.file
        parts = ("understudy", *Path(mutant.file).with_suffix("").parts)
        self.module = ".".join(parts).removesuffix(".__init__")
        self.tree = mutated(self.path.read_text(encoding="utf-8"), mutant)

    def find_spec(self, name: str, *_: Any) -> Any:
        if name != self.module:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=str(self.path), is_package=False)

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.path)
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def _options(name: str) -> list[str]:
    scratch = BUILD / "scratch" / f"{name}-{os.getpid()}"
    scratch.parent.mkdir(exist_ok=True)
    os.environ["UNDERSTUDY_CACHE"] = str(BUILD / "cache")
    return [
        *("-q", "--no-header", "--tb=native", "--rootdir", str(ROOT), f"--basetemp={scratch}"),
        *("-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not spark"),
        *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins are loaded before the fork
    ]


def _run_mutant(mutant: Mutant, tests: list[str], verdict: Path) -> int:
    import hypothesis
    import pytest

    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutants")
    sys.meta_path.insert(0, MutatedModule(mutant))
    order = {test: position for position, test in enumerate(tests)}

    class Chosen:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            items[:] = sorted(
                (item for item in items if item.nodeid in order), key=lambda i: order[i.nodeid]
            )

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                verdict.write_text(report.nodeid)

    files = list(dict.fromkeys(str(ROOT / test.split("::")[0]) for test in tests))
    try:
        return int(pytest.main(["-x", *_options("mutant"), *files], plugins=[Chosen()]))
    except Exception:  # what pytest raises at its end, such as connections left open, is red too
        return 1


def _forked(work: Callable[[], int], cpu: float, wait: bool = True) -> int:
    """Run `work` in a fork with a limit of processor time; its exit status, or its id."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if wait else pid
    code = 99
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu) + 5))
        said = os.open(LOG if wait else os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@dataclass(frozen=True)
class Trial:
    """A mutant, the tests that it has to pass to survive, and where the red one is written."""

    mutant: Mutant
    tests: list[str]
    verdict: Path
    cpu: float

    def run(self) -> int:
        return _run_mutant(self.mutant, self.tests, self.verdict)


class Crew:
    """Trials in forks, so many at a time."""

    def __init__(self, record: Callable[[Trial, str, float], None]) -> None:
        self.record = record
        self.at_work: dict[int, Trial] = {}
        self.looked_at: dict[int, tuple[float, int]] = {}  # when, and what it had used by then

    def start(self, trial: Trial) -> None:
        self.wait(until=RUNNING - 1)
        pid = _forked(trial.run, trial.cpu, wait=False)
        self.at_work[pid], self.looked_at[pid] = trial, (time.monotonic(), -1)

    def wait(self, until: int) -> None:
        """Until at most so many are at work. One that sleeps for ever is ended; one that waits for
        a processor is not."""
        while len(self.at_work) > until:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid:
                trial = self.at_work.pop(pid)
                _end(pid)  # what the tests left running
                shutil.rmtree(BUILD / "scratch" / f"mutant-{pid}", ignore_errors=True)
                outcome = outcome_of(os.waitstatus_to_exitcode(status))
                self.record(trial, outcome, usage.ru_utime + usage.ru_stime)
                continue
            for pid in self.at_work:
                when, used = self.looked_at[pid]
                if time.monotonic() - when > ASLEEP:
                    ticks = _ticks(pid)
                    if ticks == used:
                        _end(pid)
                    self.looked_at[pid] = time.monotonic(), ticks
            time.sleep(0.02)


def _ticks(pid: int) -> int:
    """Processor time that a process has used, as Linux counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def outcome_of(code: int) -> str:
    """What pytest's exit status, or the signal that ended the fork, says of the mutant."""
    if code == 0:
        return "survived"
    if code in (1, 2, 3, 4):
        return "killed"
    if code < 0:
        return "timeout"
    raise SystemExit(f"The tests of a mutant did not run (status {code}).")


# --- a room -------------------------------------------------------------------------------------


def run_room(room: str, minutes: float) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    print(f"{room}: which test reaches which line", flush=True)
    reach, results, listed = reach_of(room), read_results(room), equivalent()
    ends = time.monotonic() + 60 * minutes
    with _results_file(room).open("a") as out:

        def record(trial: Trial, outcome: str, cpu: float) -> None:
            by = trial.verdict.read_text() if trial.verdict.exists() else ""
            trial.verdict.unlink(missing_ok=True)
            line = {"outcome": outcome, "by": by, "cpu": round(cpu, 2), "tests": trial.tests}
            out.write(json.dumps({"mutant": trial.mutant.name, **line}) + "\n")
            out.flush()

        crew = Crew(record)
        for number, mutant in enumerate(sample_of(room)):
            if _is_red(results.get(mutant.name)) or mutant.name in listed:
                continue
            if time.monotonic() > ends:
                print(f"{room}: stopped after {minutes:g} minutes; the same command goes on.")
                break
            tests = tests_for(mutant, reach)
            limit = 2 * sum(reach[test]["seconds"] for test in tests) + 30
            trial = Trial(mutant, tests, BUILD / f"{room}.{number}.verdict", limit)
            if tests:
                crew.start(trial)
            else:
                record(trial, "no coverage", 0.0)
        crew.wait(until=0)


def _results_file(room: str) -> Path:
    return BUILD / f"{room}.jsonl"


def read_results(room: str) -> dict[str, dict[str, Any]]:
    store = _results_file(room)
    lines = store.read_text().splitlines() if store.exists() else []
    return {line["mutant"]: line for line in map(json.loads, lines)}


def _is_red(result: dict[str, Any] | None) -> bool:
    return result is not None and result["outcome"] in ("killed", "timeout")


def report(room: str) -> dict[str, Any]:
    """Say what survived; the figures of the room."""
    results, listed = read_results(room), equivalent()
    counts: Counter[str] = Counter()
    cpu, survivors = 0.0, ""
    for mutant in sample_of(room):
        if mutant.name in listed:
            counts["equivalent"] += 1
            continue
        result = results.get(mutant.name, {"outcome": "not run", "cpu": 0.0, "tests": []})
        counts[result["outcome"]] += 1
        cpu += result["cpu"]
        if not _is_red(result):
            survivors += (
                f"{mutant.file}:{mutant.line} in {mutant.function or 'the module'}\n"
                f"    {mutant.code}\n    {mutant.change}\n"
                f"    {result['outcome']}: {', '.join(result['tests'][:5]) or 'no test'}"
                f"{' ...' if len(result['tests']) > 5 else ''}\n"
            )
    if survivors:
        (BUILD / f"{room}.survivors").write_text(survivors)
        print(survivors)
    killed = counts["killed"] + counts["timeout"]
    total = sum(counts.values())
    left = total - killed - counts["equivalent"]
    figures = {
        "room": room, "mutants": total, "killed": killed, "timeout": counts["timeout"],
        "equivalent": counts["equivalent"], "left": left, "cpu": round(cpu / 60, 1),
        "not_run": counts["not run"],
        "share": f"{100 * killed / max(total, 1):.0f} %",
        "score": f"{100 * killed / max(total - counts['equivalent'], 1):.0f} %",
    }  # fmt: skip
    print(" ".join(f"{name}={value}" for name, value in figures.items()), flush=True)
    return figures


def write_table(rooms: Iterable[dict[str, Any]]) -> None:
    """Put the figures into docs/testing.md; rooms that were not run to the end keep theirs."""
    begin, end = "<!-- mutants: begin -->", "<!-- mutants: end -->"
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(begin)
    table, after = rest.split(end)
    rows = {row.split("|")[1].strip(): row for row in table.strip().splitlines()[2:] if row.strip()}
    for f in (figures for figures in rooms if not figures["not_run"]):
        rows[f["room"]] = (
            f"| {f['room']} | {f['mutants']} | {f['killed']} | {f['share']} | {f['equivalent']} "
            f"| {f['left']} | {f['score']} | {f['timeout']} | {f['cpu']} |"
        )
    head = (
        "| room | mutants | killed | of all | equivalent | left | of the others | by time "
        "| CPU minutes |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    body = "\n".join(rows[room] for room in TESTS if room in rows)
    DOCUMENT.write_text(f"{before}{begin}\n{head}{body}\n{end}{after}", encoding="utf-8")


def main() -> None:
    choice = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    choice.add_argument("rooms", nargs="*", choices=[*TESTS, []], help="all, if none is named")
    choice.add_argument("--minutes", type=float, default=60, help="the longest for a room")
    choice.add_argument("--report", action="store_true", help="only say what is known")
    choice.add_argument("--record", action="store_true", help="write the figures into the docs")
    chosen = choice.parse_args()
    rooms = chosen.rooms or list(TESTS)
    if not chosen.report:
        os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        # programs that a mutant leaves as they are need not be compiled again by each fork
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(BUILD / "programs"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("XLA_FLAGS", AS_THE_MAKEFILE)
        os.environ["PYTHONPATH"] = str(SOURCE.parent)
        sys.path.insert(0, str(SOURCE.parent))
        os.chdir(ROOT)
        for library in LIBRARIES:
            importlib.import_module(library)
        gc.collect()
        gc.freeze()  # so that the forks share these pages
        sys.dont_write_bytecode = False  # the forks reuse what pytest compiled
        for room in rooms:
            run_room(room, chosen.minutes)
    figures = [report(room) for room in rooms]
    if chosen.record:
        write_table(figures)
    sys.exit(1 if any(f["left"] for f in figures) else 0)


if __name__ == "__main__":
    main()
