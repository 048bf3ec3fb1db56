"""Compiled programs: counted, and kept on disk from one process to the next.

Only the sampler's own programs are kept. Their data are arguments, so a file holds no record; a
program of another library may have data built in, and is never written here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import jax

NEVER = 1e9  # seconds of compilation from which on JAX would keep a program
# XLA's older emitters of fused loops: programs run as fast, and NUTS compiles in half the time.
QUICKLY: dict[str, str | bool] = {"xla_cpu_use_fusion_emitters": False}
# Programs with gamma variates compile in half the time at level 1 of XLA's optimisation, and run as
# fast as at level 3. Where one runs once for each data set, no optimisation at all is best
# up to so many records (Beta draws of 300 records: 0.3 s instead of 1.7 to compile; of a million:
# 9 s instead of 3 to run).
FEW_RECORDS = 20_000

_count = 0


def compilations() -> int:
    """How many sampler programs this process has built; a repeated fit must not raise it."""
    return _count


def compiled(function: Callable[..., Any], *like: Any, optimisation: int = 3) -> Callable[..., Any]:
    """The function compiled ahead of time for arguments like these, at a level of XLA's from 0 to
    3, whatever the environment says.

    A later call with other shapes fails instead of compiling again.
    """
    global _count  # noqa: PLW0603 (one number per process is what it is)
    _count += 1
    with _kept_on_disk():
        lowered = jax.jit(function).lower(*like)
        try:
            options = QUICKLY | {"xla_backend_optimization_level": str(optimisation)}
            program: Callable[..., Any] = lowered.compile(compiler_options=options)
        except jax.errors.JaxRuntimeError:  # an XLA that does not know the option
            program = lowered.compile()
    return program


def kept(
    constants: int, few_runs: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like `jax.jit` with the first `constants` arguments built into the program, and with its
    programs kept on disk: one for each set of constants and shapes of the other arguments.

    Data must be among the others. The first constant (a density) owns the programs, which go when
    it goes. With `few_runs` a program runs once or so for each data set, and is compiled for that.
    """

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        programs: WeakKeyDictionary[Any, dict[Hashable, Callable[..., Any]]] = WeakKeyDictionary()
        building = threading.Lock()

        @wraps(function)
        def run(*arguments: Any) -> Any:
            (owner, *constant), data = arguments[:constants], arguments[constants:]
            leaves, tree = jax.tree.flatten(data)
            shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
            with building:
                of_owner = programs.setdefault(owner, {})
                program = of_owner.get((*constant, tree, shapes))
                if program is None:
                    records = max((shape[0] for shape, _ in shapes if shape), default=1)
                    level = 0 if few_runs and records <= FEW_RECORDS else 1
                    program = compiled(
                        partial(function, owner, *constant), *data, optimisation=level
                    )
                    of_owner[(*constant, tree, shapes)] = program
            return program(*data)

        return run

    return keep


def cache_folder() -> Path:
    """`UNDERSTUDY_CACHE`, or `understudy` in the user's cache folder."""
    chosen = os.environ.get("UNDERSTUDY_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"


@contextmanager
def _kept_on_disk() -> Iterator[None]:
    """Let JAX keep what is compiled here, unless the user has chosen a folder and rule already."""
    own = str(cache_folder() / "programs")
    if _setting("jax_compilation_cache_dir") not in (None, own):
        yield
        return
    try:
        Path(own).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        yield  # no place to keep them: compile each time
        return
    _set("jax_compilation_cache_dir", own)
    _set("jax_persistent_cache_min_compile_time_secs", 0.0)
    try:
        yield
    finally:
        _set("jax_persistent_cache_min_compile_time_secs", NEVER)


def _setting(name: str) -> Any:
    return getattr(jax.config, name, None)


def _set(name: str, value: Any) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]
