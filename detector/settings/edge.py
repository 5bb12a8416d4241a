"""The `edge:` group of config.yaml: one network watched by several daemons, each with its own sensors."""

from __future__ import annotations

from connectors.settings.secrets import FilePath, Secret, WithSecrets
from detector.settings.base import setting
from detector.settings.diagnosis import Name

LEAST_KEY = 16  # bytes


class EdgeSettings(WithSecrets):
    """Daemons that watch parts of one network and tell their neighbours parameters and scores of the nodes at
    the cuts, never samples. `graph` holds the whole network, the same in all of them."""

    box: Name | None = setting(
        None,
        "Name of this daemon among the boxes; null: it watches the whole network, cut as the boxes are, as "
        "for learning from a recording of all of it.",
        applies="restart",
    )
    boxes: FilePath | dict[Name, list[str]] = setting(
        ...,
        "Which node lives where: a CSV file with lines node,box, or {box: [nodes]}. The same in all boxes.",
        applies="restart",
    )
    source: str | None = setting(
        None,
        "Name of the source through which neighbours are heard: mqtt, kafka, redis, nats.",
        applies="restart",
    )
    sink: str | None = setting(None, "Name of the sink through which neighbours are told.", applies="restart")
    key: Secret = setting(
        None,
        "Secret that all boxes share, of 16 bytes or more; messages are signed with it.",
        applies="restart",
    )
    key_file: FilePath | None = setting(None, "File that holds the key.", applies="restart")
    dictionary: FilePath | None = setting(
        None,
        "File of `detector edge export` with the dictionary and features that all boxes share; null: this "
        "box finds its own, for the others to take.",
        applies="restart",
    )
    patience: int = setting(
        5,
        "Ticks for which the last known parameters of a neighbour are used; then its nodes are taken to be "
        "quiet until it is heard again.",
        applies="restart",
        ge=1,
        le=1000,
    )
