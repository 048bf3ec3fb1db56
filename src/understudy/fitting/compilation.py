"""The persistent compilation cache, and a count of what was compiled in this process."""

from __future__ import annotations

import os
from pathlib import Path

import jax

_count = 0


def compilations() -> int:
    """How many sampler programs this process has built; a repeated fit must not raise it."""
    return _count


def count_compilation() -> None:
    global _count  # noqa: PLW0603 (one number per process is what it is)
    _count += 1


def cache_folder() -> Path:
    """`UNDERSTUDY_CACHE`, or `understudy` in the user's cache folder."""
    chosen = os.environ.get("UNDERSTUDY_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"


def keep_programs() -> None:
    """Let JAX keep compiled programs on disk, unless the user has chosen a place already."""
    if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
        folder = cache_folder() / "programs"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return  # no place to keep them: compile each time
        jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
