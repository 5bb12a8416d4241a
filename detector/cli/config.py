"""`detector check`, `init`, `schema`, `graph`: everything about the configuration file and its network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.common import CONFIG, INPUT_OUTPUT, UNAVAILABLE, Failure, load_config, print_json
from detector.cli.learn import outlook
from detector.cli.options import config_option, json_option

if TYPE_CHECKING:
    from connectors.base import Connector, Expected
    from detector.config.config import Config
    from detector.network.network import Network

OK = "ok"
FIRST_S = 5.0  # how long a source may take to bring a message


@click.command()
@config_option
@click.option(
    "--connect",
    is_flag=True,
    help="Also open every source and sink, and decode one message. Do not use it while the daemon runs.",
)
@click.option("--timeout", default=15.0, show_default=True, help="Seconds to wait for each of them.")
@json_option
def check(config_path: Path, connect: bool, timeout: float, as_json: bool) -> None:
    """Validate a configuration and list all errors.

    Exit code 78 if the file is wrong, 69 if a client library is missing or a connector cannot be opened.
    """
    from detector.config.edge import key_problems
    from detector.config.errors import ConfigError, Problem

    problems: list[Problem] = []
    lacking: list[Problem] = []
    doubts: list[Problem] = []
    tried: dict[str, str] = {}
    config: Config | None = None
    try:
        config = load_config(config_path)
        config.settings()
        config.network()
        config.names()
        lacking = list(_missing_libraries(config))
        problems = key_problems(config)
        doubts = [*config.doubts(), *_learnt_otherwise(config)]
        if connect and not lacking:
            tried = asyncio.run(try_connectors(config, timeout))
    except ConfigError as error:
        problems = error.problems
    failed = {name: said for name, said in tried.items() if not said.startswith(OK)}
    code = CONFIG if problems else UNAVAILABLE if lacking or failed else 0
    if as_json:
        faults, warnings = [p.record() for p in [*problems, *lacking]], [p.record() for p in doubts]
        print_json({"ok": code == 0, "problems": faults, "warnings": warnings, "connectors": tried})
    else:
        for doubt in doubts:
            click.echo(f"warning: {doubt}", err=True)
        for name, said in tried.items():
            click.echo(f"{name}: {said}", err=name in failed)
        if code == 0 and config is not None:
            click.echo(_summary(config))
            settings = config.settings()
            click.echo("\n".join(outlook(settings, config.dim, settings.align.step)))
    if code:
        lines = [str(problem) for problem in [*problems, *lacking]]
        lines += [f"{name}: {said}" for name, said in failed.items() if as_json]
        raise Failure("\n".join(lines) or f"{len(failed)} of {len(tried)} connectors cannot be used", code)


def _summary(config: Config) -> str:
    network = config.network()
    nodes = network.n_nodes if network else len(config.names() or ())
    links = f"{len(network.edges())} links" if network else "links to be learnt"
    around = network.surroundings if network else None
    box = ""
    if around is not None and around.box is not None:
        budget = config.settings().alarm.budget
        box = f" of box {around.box} (the network has {around.whole.n_nodes}; budget here {budget})"
    return (
        f"{config.path}: fine: {nodes} nodes{box}, {links}; sources: {', '.join(config.sources)}; "
        f"sinks: {', '.join(config.sinks) or 'none'}"
    )


def _learnt_otherwise(config: Config) -> Iterator[Any]:
    """Settings with which the stored state was not learnt: `detector run` would refuse it."""
    from detector.pipeline.checkpoint import changed
    from detector.settings.changes import in_words
    from detector.storage.database import StateError
    from detector.storage.inspect import load_snapshot

    folder = config.state.folder()
    try:
        snapshot = load_snapshot(folder)
    except StateError:
        return  # none, or one that `detector run` has more to say about
    if snapshot is None or snapshot.meta["phase"] == "learning":
        return
    for change in changed(config.settings(), dict(snapshot.meta), config.network() is None):
        before = in_words(change.before)
        yield config.problem(
            change.path, f"the state in {folder} was learnt with {before}; `detector run` will refuse it"
        )


def _missing_libraries(config: Config) -> Iterator[Any]:
    from connectors.base import install_line, installed

    found: list[tuple[str, str, Any, type[Connector]]] = []
    sources, sinks = config.source_objects(True), config.sink_objects(True)
    found += [("sources", name, config.sources[name], type(one)) for name, one in sources.items()]
    found += [("sinks", name, config.sinks[name], type(one)) for name, one in sinks.items()]
    for side, name, given, kind in found:
        line = kind.missing(given)
        if line is not None:
            yield config.problem((side, name, "type"), f"client library not installed: run  {line}")
    if config.engine.type == "ray" and not installed("ray"):
        yield config.problem(("engine", "type"), f"ray is not installed: run  {install_line('ray')}")


async def try_connectors(config: Config, timeout: float) -> dict[str, str]:
    """Open and close each connector; what each said. One after the other: the messages stay in order."""
    from detector.runtime.pipeline_thread import Plan
    from detector.storage.lock import Lock

    # A second client under the same name would take the session over from a running daemon. Without a folder
    # there is none, and making one is not for us: it would belong to whoever runs this.
    folder = config.state.folder()
    lock = Lock(folder) if folder.is_dir() else None
    said: dict[str, str] = {}
    try:
        expected = Plan.of(config).expected
        for name, source in config.source_objects(True).items():
            source.expect(expected)
            wanted = expected if name in config.source_objects() else None
            said[f"sources.{name}"] = await _try(
                source, lambda one, wanted=wanted: _first(one, wanted, timeout), timeout
            )
        for name, sink in config.sink_objects(True).items():
            said[f"sinks.{name}"] = await _try(sink, _open_sink, timeout)
    finally:
        if lock is not None:
            lock.close()
    return said


async def _open_sink(sink: Any) -> str:
    await sink.open()
    return OK


async def _first(source: Any, expected: Expected | None, timeout: float) -> str:
    """Open a source and decode one real message, where one can be read and is there again later."""
    from detector.events.model import iso

    await source.open(None)
    if expected is None or source.listens or not (source.replayable or source.raw):
        return OK
    patience = min(FIRST_S, timeout / 2)
    try:
        async with asyncio.timeout(patience):
            batch = await source.read()
            while batch is not None and not batch.received:
                batch = await source.read()
    except TimeoutError:
        return f"{OK}, but no message within {patience:g} s"
    if batch is None:
        return f"{OK}, but there is nothing to read"
    if not batch.samples:
        return f"reachable, but what it sends cannot be decoded: {source.problem}"
    sample = batch.samples[0]
    text = f"node {sample.node!r} at {iso(sample.time)} with {len(sample.values)} value(s)"
    if expected.nodes is not None and not any(one.node in expected.nodes for one in batch.samples):
        return f"reachable, but its samples are of no node of the network: {text}"
    if all(len(one.values) != expected.dim for one in batch.samples):
        return f"reachable, but its samples have not {expected.dim} value(s), as the network has: {text}"
    return f"{OK}: {text}"


async def _try(connector: Any, trial: Any, timeout: float) -> str:
    try:
        async with asyncio.timeout(timeout):
            return str(await trial(connector))
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except Exception as error:
        return str(error) or type(error).__name__
    finally:
        try:
            async with asyncio.timeout(timeout):
                await connector.close()
        except Exception:
            pass  # what matters was said by the trial


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
    from connectors import PluginError
    from detector.config.template import template

    try:
        text = template(source, sink, file.name)
    except PluginError as error:
        raise Failure(str(error), UNAVAILABLE) from None
    try:
        with file.open("w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise Failure(f"{file} exists; --force overwrites it", INPUT_OUTPUT) from None
    click.echo(f"wrote {file}: look through it, then run  detector check --config {file}", err=True)


@click.command()
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    from detector.config.reference import schema as made

    click.echo(json.dumps(made(), indent=2))


@click.command()
@config_option
@click.option("--format", "form", type=click.Choice(["dot", "json", "png"]), default=None,
              help="Default: from the extension of the output, else dot.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False),
              help="Write to this file; required for images.")  # fmt: skip
def graph(config_path: Path, form: str | None, output: Path | None) -> None:
    """Print the sensor network, or draw it."""
    if form is None:
        form = output.suffix[1:] if output is not None and output.suffix[1:] in ("json", "png") else "dot"
    if form == "png" and output is None:
        raise click.UsageError("a picture needs a file: --output network.png")
    network = load_config(config_path).network()
    if network is None:
        raise Failure("the graph is still to be learnt from data (graph.learn)")
    if form == "png":
        assert output is not None
        from detector.network.draw import draw_network

        draw_network(network, output)
    elif output is not None:
        output.write_text(
            dot(network) if form == "dot" else json.dumps(links(network)) + "\n", encoding="utf-8"
        )
    elif form == "json":
        print_json(links(network))
    else:
        click.echo(dot(network), nl=False)


def links(network: Network) -> dict[str, object]:
    """JSON-ready."""
    return {
        "nodes": list(network.names),
        "edges": [{"from": u, "to": v, "weight": weight} for u, v, weight in network.edges()],
    }


def dot(network: Network) -> str:
    """For graphviz: names are quoted, whatever is in them."""
    lines = ["graph network {", "  node [shape=circle];"]
    lines += [f"  {_quoted(name)};" for name in network.names]
    for u, v, weight in network.edges():
        label = "" if weight == 1.0 else f" [weight={weight:g}]"
        lines.append(f"  {_quoted(u)} -- {_quoted(v)}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
