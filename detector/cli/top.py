"""`detector top`: a live view of the running daemon."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from detector.cli.client import Daemon, NotRunning
from detector.cli.common import load_config
from detector.cli.options import config_option


@click.command()
@config_option
@click.option("--every", default=1.0, show_default=True, type=click.FloatRange(0.2, 60.0),
              help="Seconds between refreshes.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print one frame and exit.")
def top(config_path: Path, every: float, once: bool) -> None:
    """Watch the running daemon: rates, incidents, the nodes with the largest statistics. Press q to quit."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from detector.cli.top_view import Rates, frame

    daemon, rates, console = Daemon(load_config(config_path)), Rates(), Console()
    status = daemon.get("/api/v1/status")  # not running is told before the screen is taken
    rates.take(status)
    if once:
        console.print(frame(status, rates, daemon.address, console.height))
        return
    with _keys() as keys, Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            live.update(frame(status, rates, daemon.address, console.height), refresh=True)
            if keys.pressed_q(every):
                return
            try:
                status = daemon.get("/api/v1/status")
            except NotRunning as gone:
                live.update(Text(f"{gone.message}; trying again, q ends", "bold red"), refresh=True)
                continue
            rates.take(status)


class Keys:
    """What is typed, without waiting for Enter."""

    def __init__(self, listening: bool) -> None:
        self._listening = listening

    def pressed_q(self, seconds: float) -> bool:
        """Wait so long, or until q."""
        import select

        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            if not self._listening:
                time.sleep(left)
            elif select.select([sys.stdin], [], [], left)[0]:
                typed = sys.stdin.read(1)
                if typed in ("q", "Q", "\x03"):
                    return True
                if not typed:  # the input has ended: nothing more can be typed
                    self._listening = False
        return False


@contextmanager
def _keys() -> Iterator[Keys]:
    if not sys.stdin.isatty():
        yield Keys(False)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)  # ctrl-c still interrupts
    try:
        yield Keys(True)
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
