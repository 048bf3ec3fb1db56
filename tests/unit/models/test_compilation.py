"""Programs kept on disk: which ones, for whom, and without a record in them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from understudy.models.compilation import compilations, kept


class Owner:
    """Stands for a density: anything that can be hashed and weakly referred to."""


@kept(constants=2)
def scaled(owner: Owner, power: int, x: Array, more: dict[str, Array]) -> Array:  # noqa: ARG001
    return x**power + more["shift"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of programs, empty, in the place that a user without settings would have."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path))
    jax.config.update(names[0], None)
    reset_cache()
    yield tmp_path / "programs"
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


def run(owner: Owner, power: int, x: Any, shift: float = 1.0) -> list[float]:
    return np.asarray(scaled(owner, power, jnp.asarray(x), {"shift": jnp.asarray(shift)})).tolist()


def names(programs: Path) -> set[str]:
    return {path.name.split("-")[0] for path in programs.iterdir()}


def test_a_program_serves_its_constants_and_shapes(programs: Path) -> None:
    first, second = Owner(), Owner()
    before = compilations()
    assert run(first, 2, [1.0, 3.0]) == [2.0, 10.0]
    assert run(first, 2, [2.0, 5.0], shift=0.0) == [4.0, 25.0]
    assert compilations() == before + 1
    assert run(first, 3, [1.0, 3.0]) == [2.0, 28.0]  # another constant
    assert run(first, 2, [1.0, 3.0, 4.0]) == [2.0, 10.0, 17.0]  # another shape
    assert run(second, 2, [1.0, 3.0]) == [2.0, 10.0]  # another owner
    assert compilations() == before + 4
    assert len(list(programs.glob("*-cache"))) == 3  # the second owner's program was on disk


def test_other_programs_are_not_kept(programs: Path) -> None:
    run(Owner(), 2, [1.0, 3.0])

    @jax.jit
    def elsewhere(x: Array) -> Array:
        return jnp.sin(x)

    elsewhere(jnp.ones(7)).block_until_ready()
    assert names(programs) == {"jit_scaled"}
    assert programs.stat().st_mode & 0o777 == 0o700


def test_a_kept_program_holds_no_data(programs: Path) -> None:
    """The bytes of a value that is an argument are nowhere in the file; a constant's are."""
    secret, public = (np.asarray(jnp.asarray(x)) for x in (1234567.890625, 7654321.015625))

    class Public(Owner):
        factor = public

    @kept(constants=1)
    def multiplied(owner: Public, x: Array) -> Array:
        return x * jnp.stack([owner.factor, 2 * owner.factor, jnp.ones_like(owner.factor)])

    multiplied(Public(), jnp.asarray([secret, 2 * secret, 3 * secret])).block_until_ready()
    (path,) = programs.glob("jit_multiplied-*-cache")
    content = decompressed(path.read_bytes())
    assert public.tobytes() in content
    assert secret.tobytes() not in content


def decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        zstandard = pytest.importorskip("zstandard", reason="JAX compressed with zstandard")
        return bytes(zstandard.ZstdDecompressor().decompress(data))
