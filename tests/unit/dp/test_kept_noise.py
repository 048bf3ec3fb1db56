"""Noise that is drawn once and then kept, whatever happens in between (threat 32)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from understudy.dp.kept_noise import OtherQuestion, keeping
from understudy.dp.noise import integer_laplace

COUNTS = np.arange(40)
WIDE = 0.001  # epsilon: 40 draws of scale 1,000 agree by chance about once in 10^130


def draw(counts: np.ndarray = COUNTS, epsilon: float = WIDE) -> list[int]:
    return integer_laplace(counts, 1, epsilon).tolist()


@pytest.mark.any_noise
def test_the_same_questions_get_the_same_answers_and_new_ones_new(tmp_path: Path) -> None:
    with keeping(tmp_path / "noise"):
        first = [draw(), draw(COUNTS + 1)]
    with keeping(tmp_path / "noise"):
        again = [draw(), draw(COUNTS + 1), draw(COUNTS + 2)]
    with keeping(tmp_path / "noise"):
        third = [draw(), draw(COUNTS + 1), draw(COUNTS + 2)]
    assert again[:2] == first
    assert third == again
    assert first[0] != (np.array(first[1]) - 1).tolist()
    assert draw() != draw()  # outside nothing is kept


@pytest.mark.any_noise
def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    (tmp_path / "noise").touch(0o644)
    with keeping(tmp_path / "noise"):
        draw()
    assert (tmp_path / "noise").stat().st_mode & 0o777 == 0o600


@pytest.mark.any_noise
@pytest.mark.parametrize("other", [(COUNTS + 1, WIDE), (COUNTS, 2 * WIDE), (COUNTS[:9], WIDE)])
def test_noise_is_not_used_for_another_question(tmp_path: Path, other: tuple) -> None:
    """Two answers with the same noise would give their difference away."""
    with keeping(tmp_path / "noise"):
        draw()
    with keeping(tmp_path / "noise"), pytest.raises(OtherQuestion):
        draw(*other)


@pytest.mark.any_noise
def test_a_torn_answer_is_drawn_anew_and_a_whole_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    with keeping(path):
        whole = draw()
        draw(COUNTS + 1)
    length = path.stat().st_size
    for cut in (1, 33, length // 2 - 1):
        os.truncate(path, length - cut)
        with keeping(path):
            assert draw() == whole
            draw(COUNTS + 1)
        assert path.stat().st_size == length
    with path.open("r+b") as file:
        file.seek(length - 40)
        file.write(b"\xff" * 8)
    with keeping(path):
        assert draw() == whole
        redrawn = draw(COUNTS + 1)
    with keeping(path):
        assert [draw(), draw(COUNTS + 1)] == [whole, redrawn]


PROGRAM = """
import os, signal, sys
from pathlib import Path
import numpy as np
from understudy.dp.kept_noise import keeping
from understudy.dp.noise import integer_laplace

folder = Path(sys.argv[1])
for number in range(60):
    child = os.fork()
    if child == 0:
        with keeping(folder / "noise"):
            seen = integer_laplace(np.arange(40), 1, 0.001).tolist()
            (folder / f"seen-{number}").write_text(str(seen))
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""


@pytest.mark.any_noise
def test_sixty_kills_give_one_value(tmp_path: Path) -> None:
    """kill -9 as soon as the noise is there; what each run saw stands in a file of its own."""
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True)
    seen = {(tmp_path / f"seen-{number}").read_text() for number in range(60)}
    assert len(seen) == 1
