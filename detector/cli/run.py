"""`detector run`: the daemon in the foreground."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Literal

import click

from detector.cli.common import load_config
from detector.cli.options import config_option


@click.command()
@config_option
@click.option("--once", is_flag=True, help="Stop when all sources have ended and everything is delivered.")
@click.option("--dry-run", is_flag=True, help="Detect, but send nothing to any sink.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="Format of the log on standard error.",
)  # fmt: skip
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info",
    show_default=True, help="Lowest level that is logged.",
)  # fmt: skip
def run(
    config_path: Path, once: bool, dry_run: bool, log_format: Literal["text", "json"], log_level: str
) -> None:
    """Watch the sources and report incidents, until stopped.

    SIGTERM and SIGINT save everything and stop; SIGHUP reloads the configuration.
    """
    from detector.runtime import memory

    memory.settle_allocator()
    config = load_config(config_path)
    from detector.daemon.daemon import serve
    from detector.runtime import logs

    logs.setup(log_format, log_level)
    sys.exit(asyncio.run(serve(config, once=once, dry_run=dry_run)))
