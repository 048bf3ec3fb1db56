"""Source as syntax trees, parsed once for all tests that look at the code."""

from __future__ import annotations

import ast
from functools import cache


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All nodes of the text, as `ast.walk` gives them: the module itself is the first."""
    return tuple(ast.walk(ast.parse(text)))


def tree_of(text: str) -> ast.Module:
    """The tree of the text, which no test may change."""
    module = nodes_of(text)[0]
    assert isinstance(module, ast.Module)
    return module
