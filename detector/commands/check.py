"""`detector check`, `init`, `schema`: everything about the configuration file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.commands.base import (
    CONFIG,
    INPUT_OUTPUT,
    UNAVAILABLE,
    Failure,
    config_option,
    json_option,
    load_config,
)
from detector.commands.output import print_json

if TYPE_CHECKING:
    from connectors.base import Connector
    from detector.config import Config


@click.command()
@config_option
@click.option("--connect", is_flag=True, help="Also try every source and sink. Not while the daemon runs.")
@click.option("--timeout", default=15.0, show_default=True, help="Seconds to wait for each of them.")
@json_option
def check(config_path: Path, connect: bool, timeout: float, as_json: bool) -> None:
    """Look a configuration over; everything that is wrong is listed.

    Exit code 78 if the file is wrong, 69 if a client library is missing or a door cannot be opened.
    """
    from detector.config_errors import ConfigError, Problem

    problems: list[Problem] = []
    lacking: list[Problem] = []
    doubts: list[Problem] = []
    doors: dict[str, str] = {}
    config: Config | None = None
    try:
        config = load_config(config_path)
        config.settings()
        config.network()
        config.names()
        lacking = list(_missing_libraries(config))
        doubts = config.doubts()
        if connect and not lacking:
            doors = asyncio.run(_try_doors(config, timeout))
    except ConfigError as error:
        problems = error.problems
    failed = {name: said for name, said in doors.items() if said != "ok"}
    code = CONFIG if problems else UNAVAILABLE if lacking or failed else 0
    if as_json:
        faults, warnings = [p.record() for p in [*problems, *lacking]], [p.record() for p in doubts]
        print_json({"ok": code == 0, "problems": faults, "warnings": warnings, "doors": doors})
    else:
        for doubt in doubts:
            click.echo(f"warning: {doubt}", err=True)
        for name, said in doors.items():
            click.echo(f"{name}: {said}", err=said != "ok")
        if code == 0 and config is not None:
            click.echo(_summary(config))
    if code:
        lines = [str(problem) for problem in [*problems, *lacking]]
        lines += [f"{name}: {said}" for name, said in failed.items() if as_json]
        raise Failure("\n".join(lines) or f"{len(failed)} of {len(doors)} doors cannot be opened", code)


def _summary(config: Config) -> str:
    network = config.network()
    nodes = network.n_nodes if network else len(config.names() or ())
    links = f"{len(network.edges())} links" if network else "links to be learnt"
    return (
        f"{config.path}: fine: {nodes} nodes, {links}; sources: {', '.join(config.sources)}; "
        f"sinks: {', '.join(config.sinks) or 'none'}"
    )


def _missing_libraries(config: Config) -> Iterator[Any]:
    doors: list[tuple[str, str, Any, type[Connector]]] = []
    sources, sinks = config.source_objects(True), config.sink_objects(True)
    doors += [("sources", name, config.sources[name], type(door)) for name, door in sources.items()]
    doors += [("sinks", name, config.sinks[name], type(door)) for name, door in sinks.items()]
    for side, name, given, kind in doors:
        line = kind.missing(given)
        if line is not None:
            yield config.problem((side, name, "type"), f"client library not installed: run  {line}")


async def _try_doors(config: Config, timeout: float) -> dict[str, str]:
    """Open and close each door; what each said. One after the other: the messages stay in order."""
    from detector.database import Lock

    # A second client under the same name would take the session over from a running daemon. Without a folder
    # there is none, and making one is not for us: it would belong to whoever runs this.
    folder = config.state.folder()
    lock = Lock(folder) if folder.is_dir() else None
    said: dict[str, str] = {}
    try:
        for name, source in config.source_objects(True).items():
            said[f"sources.{name}"] = await _try(source, lambda door: door.open(None), timeout)
        for name, sink in config.sink_objects(True).items():
            said[f"sinks.{name}"] = await _try(sink, lambda door: door.open(), timeout)
    finally:
        if lock is not None:
            lock.release()
    return said


async def _try(door: Any, opening: Any, timeout: float) -> str:
    try:
        async with asyncio.timeout(timeout):
            await opening(door)
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except Exception as error:
        return str(error) or type(error).__name__
    else:
        return "ok"
    finally:
        try:
            async with asyncio.timeout(timeout):
                await door.close()
        except Exception:
            pass  # what matters was said by the opening


def _types(side: str) -> list[str]:
    from connectors import SINKS, SOURCES

    return list(SOURCES if side == "source" else SINKS)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path("config.yaml"))
@click.option("--source", type=click.Choice(_types("source")), default="simulate", show_default=True,
              help="Where samples come from.")  # fmt: skip
@click.option("--sink", type=click.Choice(_types("sink")), default="stdout", show_default=True,
              help="Where incidents go.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def init(file: Path, source: str, sink: str, force: bool) -> None:
    """Write a commented configuration to FILE that passes `detector check`."""
    from detector.config_init import template

    text = template(source, sink, file.name)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise Failure(f"{file} exists; --force overwrites it", INPUT_OUTPUT) from None
    click.echo(f"wrote {file}: look through it, then run  detector check --config {file}", err=True)


@click.command()
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    import json

    from detector.config_text import schema as made

    click.echo(json.dumps(made(), indent=2))
