"""`understudy study NAME`: rerun a paper's study, with the published numbers beside ours.

Studies are not part of this package. A distribution offers them as entry points of the group
`understudy.studies`: the name of the study, and a function that is its command.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from understudy.errors import Refused

GROUP = "understudy.studies"
INSTALL = (
    "The studies are not installed; `pip install understudy-studies`, or in the repository "
    "`pip install -e studies`, adds them."
)


class InstalledStudies(TyperGroup):
    """A command for each study that is installed, loaded when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return sorted(entry_points(group=GROUP).names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        installed = entry_points(group=GROUP)
        if not installed:
            raise Refused(INSTALL)
        if cmd_name not in installed.names:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name)(installed[cmd_name].load())
        return typer.main.get_command(alone)


study = typer.Typer(cls=InstalledStudies, no_args_is_help=True)


@study.callback()
def about() -> None:
    """Rerun the papers' studies: figures, tables with the published numbers, and one page.

    The studies are a distribution of their own, understudy-studies.
    """
