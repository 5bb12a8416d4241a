"""From `edge:` of the configuration to the part of the network that this daemon watches."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.base import ConnectorError
from detector.config.errors import ConfigError, Problem
from detector.config.yaml_reader import KeyPath
from detector.settings.service import LEAST_KEY

if TYPE_CHECKING:
    from detector.config.config import Config
    from detector.network.network import Network

COUPLED = "grulsif"  # the engine whose nodes read each other
RUNNERS = ("inline", "threads")


def edge_problems(config: Config) -> list[Problem]:
    """What cannot be right, without a look at files."""
    edge = config.edge
    if edge is None:
        return []

    def wrong(path: KeyPath, message: str) -> Problem:
        return config.problem(path, message)

    problems = []
    if config.graph.learn:
        problems.append(wrong(("graph", "learn"), "no box sees all nodes: name the links, as in graph.edges"))
    if config.estimator.name != COUPLED:
        problems.append(wrong(("estimator", "name"), f"edge couples boxes by {COUPLED}; no other is coupled"))
    if config.engine.type not in RUNNERS:
        problems.append(wrong(("engine", "type"), f"with edge one of {', '.join(RUNNERS)}"))
    if config.engine.parts not in ("auto", 1):
        problems.append(wrong(("engine", "parts"), "with edge the boxes are the parts: leave it out"))
    if edge.box is None:
        return problems
    problems += [
        wrong(("edge", key), "is needed by a box: through it neighbours are reached")
        for key in ("source", "sink")
        if getattr(edge, key) is None
    ]
    if edge.source is not None and edge.sink is not None:
        problems += config.reserved_problems(("edge",), edge.source, edge.sink)
    if edge.key is None and edge.key_file is None:
        problems.append(wrong(("edge", "key_file"), "is needed by a box: what is heard must be signed"))
    return problems


def surrounded(config: Config, whole: Network) -> Network:
    """What this daemon watches of the network; ConfigError names the key that is wrong."""
    edge = config.edge
    if edge is None:
        return whole
    from detector.edge.dictionary import SharedDictionary  # with all of its numerics: only if wanted
    from detector.network.surroundings import Surroundings, read_boxes

    key: KeyPath = ("edge", "boxes")
    try:
        boxes = read_boxes(edge.boxes) if isinstance(edge.boxes, Path) else edge.boxes
        around = Surroundings.of(whole, boxes, edge.box)
        key = ("edge", "dictionary")
        shared = None if edge.dictionary is None else SharedDictionary.read(edge.dictionary)
    except ValueError as error:
        raise ConfigError([config.problem(key, str(error))]) from None
    return replace(around, patience=edge.patience, budget=str(config.alarm.budget), dictionary=shared).network


def key_of(config: Config) -> bytes:
    """What messages are signed with."""
    edge = config.edge
    assert edge is not None
    path = ("edge", "key" if edge.key_file is None else "key_file")
    try:
        key = (edge.secret("key") or "").encode()
    except ConnectorError as error:
        raise ConfigError([config.problem(path, str(error))]) from None
    if len(key) < LEAST_KEY:
        message = f"{len(key)} bytes; a key has {LEAST_KEY} or more, such as `openssl rand -hex 32` makes"
        raise ConfigError([config.problem(path, message)])
    return key


def key_problems(config: Config) -> list[Problem]:
    """Whether the key will do; one that this user cannot read may be right."""
    edge = config.edge
    if edge is None or edge.box is None or (edge.key_file and not os.access(edge.key_file, os.R_OK)):
        return []
    try:
        key_of(config)
    except ConfigError as error:
        return list(error.problems)
    return []
