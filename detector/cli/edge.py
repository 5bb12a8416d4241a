"""`detector edge`: one network watched by several daemons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.common import load_config, print_json
from detector.cli.options import config_option, json_option
from detector.events.wording import counted

if TYPE_CHECKING:
    from detector.edge.dictionary import SharedDictionary
    from detector.network.surroundings import Surroundings


@click.group()
def edge() -> None:
    """One network watched by several daemons (boxes) that tell each other parameters, never samples."""


@edge.command()
@config_option
@json_option
def show(config_path: Path, as_json: bool) -> None:
    """Show the boxes of the network as this one sees them: shares of the budget, and neighbours."""
    config = load_config(config_path)
    network = config.network()
    around = None if network is None else network.surroundings
    if around is None:
        raise click.UsageError(f"{config_path} has no `edge`: this daemon watches the network by itself")
    rows = [_row(around, box, str(config.alarm.budget.of_share(_share(around, box)))) for box in around.boxes]
    if as_json:
        print_json({"box": around.box, "network": around.fingerprint, "boxes": rows})
        return
    click.echo(
        f"network {around.fingerprint}: {counted(around.whole.n_nodes, 'node')}, budget {around.budget}"
    )
    for row in rows:
        here = " (this box)" if row["box"] == around.box else ""
        reads = (
            f"reads {row['ghosts']} of {', '.join(row['neighbours'])}" if row["neighbours"] else "reads none"
        )
        click.echo(
            f"  {row['box']}{here}: {counted(row['nodes'], 'node')}, {row['boundary']} of them at cuts, "
            f"{reads}; budget {row['budget']}"
        )


@edge.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@config_option
def export(file: Path, config_path: Path) -> None:
    """Write the dictionary and features that this box has learnt to FILE, for `edge.dictionary` elsewhere.

    A dictionary holds some hundred typical values in units of their spread, without node and time.
    """
    shared = learnt_dictionary(config_path)
    file.write_bytes(shared.encode())
    click.echo(f"{file}: {counted(len(shared.atoms), 'atom')}, fingerprint {shared.fingerprint}")


def learnt_dictionary(config_path: Path) -> SharedDictionary:
    """That of the state which the configuration names; a running daemon is not disturbed."""
    from detector.edge.dictionary import SharedDictionary
    from detector.runtime.pipeline_thread import Plan
    from detector.storage.inspect import load_snapshot

    config = load_config(config_path)
    folder = config.state.folder()
    snapshot = load_snapshot(folder)
    pipeline = None if snapshot is None else Plan.of(config).restored(snapshot)
    if pipeline is None or pipeline.engine is None:
        raise ValueError(f"{folder}: nothing is learnt there yet")
    shared = pipeline.engine.fresh().shared  # in this process, however many threads the parts have
    if shared is None:
        raise ValueError(f"estimator.name: {config.estimator.name} has nothing that boxes could share")
    return SharedDictionary.of(shared, pipeline.settings)


def _share(around: Surroundings, box: str) -> float:
    return float((around.labels == around.boxes.index(box)).mean())


def _row(around: Surroundings, box: str, budget: str) -> dict[str, Any]:
    from detector.network.surroundings import Surroundings

    nodes = {
        name: [around.whole.names[v] for v in (around.labels == k).nonzero()[0]]
        for k, name in enumerate(around.boxes)
    }
    there = Surroundings.of(around.whole, nodes, box)
    return {
        "box": box, "nodes": len(nodes[box]), "share": there.share, "budget": budget,
        "boundary": len(there.told_by(box)), "ghosts": len(there.cut.nodes),
        "neighbours": list(there.neighbours),
    }  # fmt: skip
