"""The configuration that does what a trial did: written beside its report, to be run and changed."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

from connectors.settings.units import format_duration
from detector.events.wording import moment
from detector.network.network import Network
from detector.trial.survey import Survey

LISTED = 40  # nodes that are written into the file; more get one of their own

TEXT = """\
# Made by `detector try` from {recording}. The state beside it was learnt from the part
# {begin} to {end}:
#   detector run --once --config {config}   finds the same incidents again
#   detector check --config {config}        looks this file over after a change
# To watch live data, put another source in the place of the file (docs/connectors.md); what was learnt stays.

# The nodes, and how they are linked
graph:
{graph}

sources:
  recording:
    type: file
    path: {path}

# Time between two samples of a node
align:
  step: {step}

# Values in units of their usual spread; auto: only where the data need it
preprocess:
  difference: auto
  whiten: auto
{season}
# Samples that are "before" (reference) and "now" (tests): short ones are fast, long ones see small changes
windows:
  reference: {reference}
  tests: {tests}

# How many false incidents the whole network may raise, and samples to learn from where there is no state
alarm:
  budget: {budget}
  learn: {learn}

sinks:
  console:
    type: stdout
  # alerts:
  #   type: alertmanager
  #   url: http://127.0.0.1:9093

state:
  directory: state

# Status page
http:
  host: 127.0.0.1
  port: 9178
"""


def write_configuration(found: Survey, network: Network | None, recording: Path, folder: Path) -> Path:
    """``config.yaml`` in ``folder``, with files for links and for many names; ``network``: links that are
    known."""
    file = folder / "config.yaml"
    begin, end = found.quiet
    reference, tests = found.windows
    season = ""
    if found.season is not None:
        season = f"  seasonal: {format_duration(found.season[0])}\n  seasonal_bins: {found.season[1]}\n"
    text = TEXT.format(
        recording=recording.name, begin=moment(begin), end=moment(end), config=shown(file),
        graph="\n".join(_graph(found, network, folder)), path=_scalar(str(seen_from(recording, folder))),
        step=format_duration(found.step), season=season, reference=reference, tests=list(tests),
        budget=found.budget, learn=found.quiet_rows,
    )  # fmt: skip
    file.write_text(text, encoding="utf-8")
    return file


def _graph(found: Survey, network: Network | None, folder: Path) -> list[str]:
    if network is not None and network.edges():
        with (folder / "edges.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(network.edges())
        lines = ["  edges: edges.csv"]
    elif network is not None or len(found.names) == 1:
        lines = ["  empty: true"]
    else:
        lines = [
            "  learn: true   # nodes that moved together; better, if you know the links: edges: edges.csv"
        ]
    if len(found.names) > LISTED:
        (folder / "nodes.txt").write_text("\n".join(found.names) + "\n", encoding="utf-8")
        lines.append("  nodes: nodes.txt")
    else:
        lines += ["  nodes:", *(f"    - {_scalar(name)}" for name in found.names)]
    if found.components:
        lines.append(f"  components: [{', '.join(map(_scalar, found.components))}]")
    elif found.dim > 1:
        lines.append(f"  dim: {found.dim}")
    return lines


def _scalar(text: str) -> str:
    """JSON strings are YAML, whatever is in them."""
    return json.dumps(text, ensure_ascii=False)


def seen_from(path: Path, folder: Path) -> Path:
    """Relative where the file lies beside the folder or in it, so that both can be moved together."""
    relative = os.path.relpath(path.absolute(), folder.absolute())
    return path.absolute() if relative.startswith(os.path.join("..", "..")) else Path(relative)


def shown(path: Path) -> Path:
    """As people would write it where they are."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else Path(relative)
