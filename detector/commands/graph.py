"""`detector graph`: the network as text for graphviz, as JSON, or as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detector.commands.base import Failure, config_option, load_config
from detector.commands.output import print_json

if TYPE_CHECKING:
    from detector.network import Network


@click.command()
@config_option
@click.option("--format", "form", type=click.Choice(["dot", "json", "png"]), default=None,
              help="Default: as the name of the output ends, else dot.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False),
              help="Write to this file; a picture needs one.")  # fmt: skip
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
        network.draw(output)
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
