"""`detector compare`: two recordings of a network, and p-values for whether, and where, they differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.common import load_config, print_json, print_table, progress_bar
from detector.cli.options import json_option, report_option

if TYPE_CHECKING:
    from detector.network.network import Network
    from detector.replay.comparison import Comparison, Recorded

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
LISTED = 20  # nodes in the table for people


@click.command()
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option("--graph", "graph_path", type=FILE, metavar="FILE",
              help="Links: CSV of edges or a matrix, GraphML, or a configuration (.yaml). Without links "
              "every node is tested by itself.")  # fmt: skip
@click.option("--level", type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True), default=0.05,
              show_default=True, help="Largest p-value of a difference.")  # fmt: skip
@click.option("--control", type=click.Choice(["family", "fdr", "none"]), default="family", show_default=True,
              help="What the level limits: the chance of any false node, the share of false nodes, or the "
              "error of each node.")  # fmt: skip
@click.option("--permutations", type=click.IntRange(19, 100_000), default=999, show_default=True,
              help="Number of permutations; p-values are at least 1 / (N + 1).")  # fmt: skip
@click.option("--block", type=click.IntRange(min=1), help="Rows that are permuted together; "
              "default: from the correlation of the samples.")  # fmt: skip
@click.option("--coupling", type=click.FloatRange(min=0.0), default=0.3, show_default=True,
              help="Weight of the neighbours relative to a node's own samples.")  # fmt: skip
@click.option("--alpha", type=click.FloatRange(0.0, 1.0, max_open=True), default=0.1, show_default=True,
              help="Mixture parameter of the relative density ratio.")  # fmt: skip
@click.option("--step", type=click.FloatRange(0.0, min_open=True), metavar="SECONDS",
              help="Samples within one step count as simultaneous; default: exact times.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the permutations.")
@report_option("Write a page with the network, all p-values and the ratios of the strongest nodes.")
@json_option
def compare(
    before: Path, after: Path, graph_path: Path | None, level: float, control: Any, step: float | None,
    report_path: Path | None, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Test whether two recordings of the same nodes differ, and at which nodes.

    BEFORE and AFTER hold JSON lines, long CSV (time, node, values) or wide CSV (time, one column per node, or
    node.component). Rows are times that all nodes share; times are exchanged by permutation, the same for all
    nodes, and in blocks where samples are correlated. Recordings should have no trend or daily cycle that is
    not the same in both.
    """
    from detector.replay.comparison import compare as compute
    from detector.replay.comparison import read_samples

    first, second = read_samples(before, step), read_samples(after, step)
    network = _network(first, second, graph_path)
    if graph_path is None:
        settings["coupling"] = 0.0
    with progress_bar("permutations") as progress:
        made = compute(first, second, network, level=level, control=control, **settings,
                       progress=lambda done, total: progress("permutations", done / total))  # fmt: skip
    if report_path is not None:
        from detector.report.comparison import comparison_page

        report_path.write_text(comparison_page(made, before.name, after.name), encoding="utf-8")
    if as_json:
        print_json(made.facts())
    else:
        _show(made)


def _network(before: Recorded, after: Recorded, graph_path: Path | None) -> Network:
    """Of the nodes that both files have; others are told."""
    from detector.network.network import Network

    for one, other in ((before, after), (after, before)):
        lost = [name for name in one.names if name not in other.names]
        if lost:
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            click.echo(f"{other.where}: no samples of {', '.join(lost[:5])}{more}; left out", err=True)
        if one.refused:
            click.echo(f"{one.where}: {one.refused} samples could not be read, and were left out", err=True)
    names = [name for name in before.names if name in after.names]
    if not names:
        raise ValueError(f"{after.where}: no node of {before.where} is in it")
    if graph_path is None:
        return Network.empty(names)
    return _linked(graph_path, names)


def _linked(path: Path, names: list[str]) -> Network:
    """Links among the names; a graph may have further nodes."""
    import numpy as np
    import scipy.sparse as sp

    from detector.network.network import Network
    from detector.replay.comparison import read_graph

    if path.suffix in (".yaml", ".yml"):
        found = load_config(path).network()
        if found is None:
            raise ValueError(f"{path}: the graph is to be learnt from data (graph.learn): there are no links")
    else:
        found = read_graph(path)
    index = found.node_index.index
    inside = [name for name in names if name in index]
    if not inside:
        raise ValueError(f"{path}: none of the nodes of the recordings is in this graph")
    lost = [name for name in names if name not in index]
    if lost:
        click.echo(
            f"{path}: no links of {', '.join(lost[:5])}{'' if len(lost) <= 5 else ' and others'}", err=True
        )
    places = np.array([index[name] for name in inside])
    W = sp.csr_array(found.graph.matrix()[places][:, places])
    positions = None if found.positions is None else found.positions[places]
    return Network.of(inside, W, positions if not lost else None).reordered(names)


def _show(made: Comparison) -> None:
    facts = made.facts()
    click.echo(f"{facts['conclusion']}; {facts['rows_before']} and {facts['rows_after']} rows, "
               f"{facts['permutations']} permutations of blocks of {facts['block']}")  # fmt: skip
    for text in facts["warnings"]:
        click.echo(f"Warning: {text}", err=True)
    for number, names in enumerate(facts["sets"], 1):
        click.echo(f"set {number}: {', '.join(names)}")
    nodes = sorted(
        facts["nodes"], key=lambda one: (one["p_family"] is None, one["p_family"], -(one["score"] or 0))
    )
    rows = [
        [one["name"], "yes" if one["changed"] else "", *(_words(one[key]) for key in KEYS)]
        for one in nodes[:LISTED]
    ]
    print_table(["node", "changed", *(key.replace("_", " ") for key in KEYS)], rows)
    if len(nodes) > LISTED:
        click.echo(f"and {len(nodes) - LISTED} more: --json or --report", err=True)


KEYS = ("score", "new", "old", "p", "p_family", "p_fdr", "p_own")


def _words(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
