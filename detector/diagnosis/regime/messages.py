"""What daemons say to each other about regimes: points, and distances to them. No sample, no node name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from detector.diagnosis.regime.library import is_unknown
from estimators.core.types import Floats
from estimators.regimes.library import Reading, RegimeLibrary

VERSION = 1
MAX_BYTES = 2**20
Tables = dict[str, Mapping[str, Reading]]  # owner: label: reading

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[float, Meta(ge=0.0)]
Point = Annotated[list[float], Meta(min_length=1, max_length=1000)]
Group = Annotated[list[Point], Meta(min_length=1, max_length=16)]  # windows of one node
Table = dict[Text, tuple[Number, Number, Annotated[float, Meta(ge=0.0, le=1.0)]]]


class Question(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="regime.question"):
    """How far are these points from what you know?"""

    id: Text
    version: int = VERSION
    sender: Text
    spec: Text  # of the features; distances compare only under the same
    alpha: Annotated[float, Meta(gt=0.0, lt=1.0)]
    until: float  # unix time after which nobody waits for an answer
    groups: Annotated[list[Group], Meta(min_length=1, max_length=50)]


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="regime.answer"):
    """So far: label to distance, distance over threshold, p-value; one table per group of points."""

    id: Text
    version: int = VERSION
    sender: Text
    question: Text
    spec: Text
    tables: Annotated[list[Annotated[Table, Meta(max_length=1000)]], Meta(max_length=50)]

    def readings(self) -> list[dict[str, Reading]]:
        return [{label: Reading(*numbers) for label, numbers in table.items()} for table in self.tables]


Message = Question | Answer


def parse(body: bytes) -> Message:
    """ValueError says what is wrong: cut off, foreign, of another version."""
    if len(body) > MAX_BYTES:
        raise ValueError(f"{len(body)} bytes, at most {MAX_BYTES} are read")
    try:
        said: Message = msgspec.json.decode(body, type=Message)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if said.version != VERSION:
        raise ValueError(f"a message of version {said.version}, this detector reads {VERSION}")
    return said


def record(message: Message) -> dict[str, Any]:
    """As a sink takes it."""
    made: dict[str, Any] = msgspec.to_builtins(message)
    return made


def answer(question: Question, known: RegimeLibrary | None, sender: str) -> Answer:
    """What the regimes say that people here have named."""
    tables: list[dict[str, tuple[float, float, float]]] = [{} for _ in question.groups]
    if known is not None:
        for group, table in zip(question.groups, tables, strict=True):
            said = known.distances(points(group), question.alpha)
            table |= {label: (*numbers,) for label, numbers in said.items() if not is_unknown(label)}
    return Answer(
        id=f"{question.id}-{sender}", sender=sender, question=question.id, spec=question.spec, tables=tables
    )


def points(group: Sequence[Sequence[float]]) -> Floats:
    try:
        return np.array(group, np.float64)
    except ValueError:
        raise ValueError("points of different lengths") from None
