"""`detector federate`: what several sites do to learn verdicts together, each sending one file."""

from __future__ import annotations

from collections.abc import MutableMapping

import click

from detector.commands.aftermath import aftermath

TOGETHER = ("export", "merge", "show")


class Federate(click.Group):
    """Those commands of `aftermath verdict`; imported when somebody looks."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        verdict = aftermath.commands["verdict"]
        assert isinstance(verdict, click.Group)
        return {name: verdict.commands[name] for name in TOGETHER}

    @commands.setter
    def commands(self, given: MutableMapping[str, click.Command]) -> None:
        """Click sets what it was given: nothing."""


federate = Federate("federate", help="Learn with other sites which incidents are false, and of which type.")
