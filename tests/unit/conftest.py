"""A generated confidential survey, the two databases that a ledger can live in, and where the
public files of a release are made."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import ClassVar

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest runs in importlib mode

from verification_samples import FINGERPRINT, NewPlace, OpenLedger, make_frame, make_survey

from understudy.ledger.accounts import add_user
from understudy.ledger.ledger import Ledger
from understudy.verify import confidential
from understudy.verify.confidential import ConfidentialData
from understudy.verify.workers import Worker, WorkerPool


class SharedWorkers(WorkerPool):
    """A pool whose idle processes serve the next data set too; they end with the tests."""

    idle: ClassVar[dict[float, list[Worker]]] = {}  # by deadline, which a process is started with
    lock = threading.Lock()

    def __init__(self, count: int = 2, deadline: float = 2.0) -> None:
        super().__init__(count, deadline)
        self._idle, self._lock = self.idle.setdefault(deadline, []), self.lock

    def close(self) -> None:
        """Its processes wait for other data sets."""


@pytest.fixture(scope="session", autouse=True)
def shared_workers() -> Iterator[None]:
    """Data sets share processes that fit: a start takes longer than all their fits. How a pool of
    its own starts and ends them is tested in verify/test_workers.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confidential, "WorkerPool", SharedWorkers)
        yield
    for deadline in SharedWorkers.idle:
        WorkerPool.close(SharedWorkers(deadline=deadline))


@pytest.fixture(scope="session")
def frame() -> pl.DataFrame:
    return make_frame()


@pytest.fixture(scope="session")
def data(frame: pl.DataFrame) -> Iterator[ConfidentialData]:
    with ConfidentialData("survey", make_survey(frame)) as opened:
        yield opened


RUN_OUTSIDE = "understudy.release.publish.run_outside"  # by name: it loads JAX, as few tests do


@pytest.fixture(scope="module")
def outside_here() -> Iterator[None]:
    """Public files of releases are made in this process, which is three seconds quicker to start;
    that they are the same bytes is tested in noninterference/test_public_files.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RUN_OUTSIDE, resolve_name("understudy.release.outside:make_public"))
        yield


@pytest.fixture
def outside_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of their own again, for tests of a module with `outside_here` that are about it."""
    monkeypatch.setattr(RUN_OUTSIDE, resolve_name("understudy.release.outside:run_outside"))


def _program(name: str) -> str | None:
    """A PostgreSQL program on the path, or where Debian keeps it."""
    program = shutil.which(name)
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return program or (str(debian[-1]) if debian else None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a private cluster in a temporary folder, run by an unprivileged user."""
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        reason = "PostgreSQL is not installed; run scripts/test-components"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    user = next(u for u in ("postgres", "nobody") if _exists(u)) if os.getuid() == 0 else None
    before = ["runuser", "-u", user, "--"] if user else []
    # Not pytest's folder: its parents are closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="understudy-pg-"))
    if user:
        shutil.chown(folder, user)
    cluster = folder / "cluster"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Our own processes are killed in the tests, the machine is not: no need to wait for the disk.
    options = f"-k {folder} -p {port} -c listen_addresses= -c max_connections=250 -c fsync=off"

    def run(*command: str) -> None:
        # A server that inherits a pipe would keep it open: the output goes nowhere.
        subprocess.run([*before, *command], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    log = str(folder / "log")
    run(initdb, "-D", str(cluster), "-A", "trust", "-U", "test", "-N")
    run(control, "-D", str(cluster), "-w", "-l", log, "-o", options, "start")
    try:
        yield f"postgresql://test@/postgres?host={folder}&port={port}"
    finally:
        run(control, "-D", str(cluster), "-m", "immediate", "stop")
        shutil.rmtree(folder)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


KINDS = ["sqlite", "postgresql"]


_SPARE: list[str] = []  # databases that tests have left and that were emptied


@contextmanager
def fresh_places(request: pytest.FixtureRequest) -> Iterator[NewPlace]:
    """Gives a function that makes a fresh database of the fixture's kind, with its head file."""
    import psycopg

    made: list[str] = []

    def new_place(folder: Path) -> tuple[str, str]:
        if request.param == "sqlite":
            return str(folder / "ledger.db"), str(folder / "ledger.db.head")
        url = request.getfixturevalue("postgres")
        if _SPARE:
            made.append(_SPARE.pop())
        else:
            made.append(f"ledger_{secrets.token_hex(6)}")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {made[-1]}")
        return url.replace("/postgres?", f"/{made[-1]}?"), str(folder / "heads")

    yield new_place
    for name in made:  # an empty schema is made in a tenth of the time of a database
        url = request.getfixturevalue("postgres").replace("/postgres?", f"/{name}?")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        _SPARE.append(name)


@pytest.fixture(params=KINDS)
def new_place(request: pytest.FixtureRequest) -> Iterator[NewPlace]:
    """Databases of each kind in turn."""
    with fresh_places(request) as maker:
        yield maker


@pytest.fixture(scope="module", params=KINDS)
def module_place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """One database of each kind for all tests of a file."""
    with fresh_places(request) as maker:
        yield maker(tmp_path_factory.mktemp("place"))


@pytest.fixture
def ledger_place(new_place: NewPlace, tmp_path: Path) -> tuple[str, str]:
    """A fresh database of each kind and its head file."""
    return new_place(tmp_path)


@pytest.fixture
def open_ledger(ledger_place: tuple[str, str]) -> Iterator[OpenLedger]:
    opened: list[Ledger] = []

    def opener() -> Ledger:
        opened.append(Ledger(*ledger_place))
        return opened[-1]

    yield opener
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: OpenLedger) -> Ledger:
    """A ledger with two analysts (1.0 each) and a data set (cap 1.5)."""
    opened = open_ledger()
    for name in ("ann", "bob"):
        add_user(opened, name)
        opened.grant(name, "1")
    opened.add_dataset(FINGERPRINT, "survey", "1.5")
    return opened
