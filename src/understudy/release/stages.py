"""A working folder in which finished stages stay, and a bundle that appears whole or not at all.

Each stage is written into a folder of its own that gets its name when it is complete. A killed
run leaves finished stages and one unfinished one; the same command goes on after the last
finished one. The bundle is the last stage, and becomes the release by one rename.

A stage that is made again may come out differently: another processor, another library, a changed
file of the steward's own. `Leavings` remembers what unfinished runs had written of it already.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from polars.exceptions import PolarsError

from understudy.errors import Refused

Say = Callable[[str], None]


class Workspace:
    """The stages of one release beside its future folder."""

    def __init__(self, folder: Path, identity: str, say: Say) -> None:
        self.folder, self.say = folder, say
        mark = folder / "identity"
        if mark.is_file() and mark.read_text(encoding="utf-8") == identity:
            say("Going on where an earlier run stopped.")
            return
        if any(path.name not in ("identity", "lock") for path in folder.iterdir()):
            say("An unfinished run of another recipe or file was left here; starting again.")
            for path in folder.iterdir():
                if path.name != "lock":
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        whole = folder / "identity.part"
        whole.write_text(identity, encoding="utf-8")
        whole.rename(mark)

    def stage(self, name: str, words: str, make: Callable[[Path], None]) -> Path:
        """The folder of a finished stage; made now if it is not there yet."""
        done = self.folder / name
        if not done.is_dir():
            if words:
                self.say(words)
            part = self.part(name)
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            _to_disk(part)
            part.rename(done)
        return done

    def part(self, name: str) -> Path:
        """The folder of a stage that is not finished."""
        return self.folder / f"{name}.part"

    def finish(self, stage: Path, out: Path) -> None:
        """The bundle under its name, and the working folder gone."""
        stage.rename(out)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def workspace(out: Path, identity: str, say: Say) -> Iterator[Workspace]:
    """The working folder of `out`, for one process at a time."""
    folder = out.with_name(f".{out.name}.unfinished")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)  # it holds confidential tables
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise Refused(f"`{out}` cannot be written: {error.strerror}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"Another run is making `{out.name}` right now; wait for it to finish."
            ) from None
        try:
            yield Workspace(folder, identity, say)
        except (OSError, PolarsError) as error:
            reason = getattr(error, "strerror", None) or "the disk refused it"
            raise Refused(f"`{out.name}` cannot be written: {reason}.") from None


class Leavings:
    """What unfinished runs of a stage wrote into one folder of it, kept beside the stages.

    A file that is written twice is the same if the shorter one is the beginning of the longer one:
    the kill may have come in the middle of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = folder / "differs"

    @property
    def differ(self) -> bool:
        """Whether two runs wrote different things."""
        return self._mark.exists()

    def take(self, written: Path) -> None:
        """Move what a run has written here, and compare it with what is here already."""
        if not written.is_dir():
            return
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if not self.same(written):
            self._mark.touch(0o600)
        for path in files_of(written):
            known = self.folder / path.relative_to(written)
            if not known.exists() or known.stat().st_size < path.stat().st_size:
                known.parent.mkdir(parents=True, exist_ok=True)
                path.replace(known)

    def same(self, written: Path) -> bool:
        """Whether nothing here contradicts what was written there."""
        if self.differ:
            return False
        for path in files_of(written):
            known = self.folder / path.relative_to(written)
            if known.exists() and not _one_begins_the_other(known, path):
                return False
        return True

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _one_begins_the_other(path: Path, other: Path) -> bool:
    length = min(path.stat().st_size, other.stat().st_size)
    with path.open("rb") as file, other.open("rb") as second:
        while length > 0:
            size = min(length, 1 << 20)
            if file.read(size) != second.read(size):
                return False
            length -= size
    return True


def _to_disk(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
