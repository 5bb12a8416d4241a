"""The command line: `detector COMMAND`. Exit codes: 0 fine, 1 failed, 2 usage, 4 learnt but the history
contradicts the budget, 69 something is not available, 74 input or output, 75 the state is
in use, 78 configuration."""

from __future__ import annotations

import copy
import logging
import os
from importlib import metadata
from typing import Any

import click
from click.shell_completion import CompletionItem

from detector.cli.adapt import adapt
from detector.cli.common import failure_of
from detector.cli.config import check, graph, init, schema
from detector.cli.diagnosis import diagnosis, federate, renamed_to
from detector.cli.edge import edge
from detector.cli.incidents import explain, incidents, status
from detector.cli.learn import learn
from detector.cli.notify.send_test_alert import send_test_alert
from detector.cli.notify.silence import silence
from detector.cli.recordings.compare import compare
from detector.cli.recordings.trial import try_
from detector.cli.replay import replay
from detector.cli.run import run
from detector.cli.state import outbox, state
from detector.cli.top import top
from detector.settings.renamed import GROUPS

PROGRAM = "detector"
DISTRIBUTION = "detectord"  # the name to install; `detector` on package indexes is not ours

# Before a command loads numpy: the matrices are small, and on a busy machine a second thread of the linear
# algebra only waits in a loop for a core that others use.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Commands(click.Group):
    """A group whose commands end with one clear line instead of a traceback."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Analyzers go by their names alone: `detector footprint`, in short."""
        name = renamed_to(GROUPS, name)
        return super().get_command(context, name) or diagnosis.get_command(context, name)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Analyzers only once a name is begun: the list of commands stays short, and quick."""
        found = super().shell_complete(context, incomplete)
        if not incomplete.isalpha():
            return found
        known = {item.value for item in found}
        short = diagnosis.shell_complete(click.Context(diagnosis), incomplete)
        return found + [item for item in short if item.value not in known]

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if context.params.get("debug"):
                raise
            raise failure_of(error) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(metadata.version(DISTRIBUTION), prog_name=PROGRAM)
@click.option("--debug", is_flag=True, help="Show where an error came from.")
def cli(debug: bool) -> None:
    """Detect changes in sensor networks: one incident per event, at a bounded rate of false ones.

    Start with `detector try RECORDING`, which needs no configuration, or run the demonstration: `detector
    run` with the configuration that comes with the program.
    """
    # What client libraries have to say is in our own errors; only `run` has a log for the rest.
    logging.getLogger().addHandler(logging.NullHandler())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    For example, in ~/.bashrc: eval "$(detector completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, PROGRAM, "_DETECTOR_COMPLETE").source())


for command in (try_, run, check, init, learn, replay, status, top, incidents, explain, diagnosis, compare,
                adapt, federate, edge, silence, send_test_alert, outbox, state, graph, schema,
                completion):  # fmt: skip
    cli.add_command(command)
calibrate = copy.copy(learn)  # an earlier name of the same command
calibrate.name, calibrate.hidden = "calibrate", True
cli.add_command(calibrate)


def main() -> None:
    cli(prog_name=PROGRAM)
