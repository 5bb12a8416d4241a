"""What daemons say to each other: a question and an answer per subject, bounded and versioned.

    regime      points, and how far they are from the regimes that somebody has named
    footprint   descriptors of parts of a network, and the scores of a predictor learnt elsewhere
    triage      nothing, and the critical samples that a person has shared

No values of sensors, no names of nodes, no graphs. Who knows nothing answers that, so that nobody waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from estimators.core.types import Floats
from estimators.regimes.library import Reading

VERSION = 1
MAX_BYTES = 2**20
MOST_GROUPS = 50  # nodes in a question about regimes
MOST_PARTS = 500  # nodes in a question about a footprint
MOST_TYPES = 50  # of events, in an answer

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Number = Annotated[float, Meta(ge=0.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Score = Annotated[float, Meta(ge=-1e3, le=1e3)]
Point = Annotated[list[float], Meta(min_length=1, max_length=1000)]
Group = Annotated[list[Point], Meta(min_length=1, max_length=16)]  # windows of one node
Table = dict[Text, tuple[Number, Number, Share]]


class OtherSpec(ValueError):
    """A question about other numbers than are known here; the answer is that nothing is known."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What all messages have."""

    id: Text
    version: int = VERSION
    sender: Text
    spec: Text  # of what the numbers mean; they compare only under the same


class Question(Message, frozen=True, kw_only=True):
    """Asked of all peers at once."""

    until: float  # unix time after which nobody waits for an answer

    def nothing(self) -> dict[str, Any]:
        """The answer of who knows nothing: its own fields."""
        return {}


class Answer(Message, frozen=True, kw_only=True):
    """To one question."""

    question: Text

    def fits(self, asked: Any) -> bool:
        """Whether it has a row for everything that was asked."""
        return True


class RegimeQuestion(Question, frozen=True, kw_only=True, tag="regime.question"):
    """How far are these points from what you know?"""

    alpha: Annotated[float, Meta(gt=0.0, lt=1.0)]
    groups: Annotated[list[Group], Meta(min_length=1, max_length=MOST_GROUPS)]

    def nothing(self) -> dict[str, Any]:
        return {"tables": [{} for _ in self.groups]}


class RegimeAnswer(Answer, frozen=True, kw_only=True, tag="regime.answer"):
    """So far: label to distance, distance over threshold, p-value; one table per group of points."""

    tables: Annotated[list[Annotated[Table, Meta(max_length=1000)]], Meta(max_length=MOST_GROUPS)]

    def fits(self, asked: Any) -> bool:
        return isinstance(asked, RegimeQuestion) and len(self.tables) == len(asked.groups)

    def readings(self) -> list[dict[str, Reading]]:
        return [{label: Reading(*numbers) for label, numbers in table.items()} for table in self.tables]


class FootprintQuestion(Question, frozen=True, kw_only=True, tag="footprint.question"):
    """Which of these parts of a settled incident are affected, and by what, as far as your labels tell?"""

    incident: Annotated[list[float], Meta(min_length=2, max_length=2)]  # how its strongest nodes moved
    parts: Annotated[list[Point], Meta(min_length=1, max_length=MOST_PARTS)]


class FootprintAnswer(Answer, frozen=True, kw_only=True, tag="footprint.answer"):
    """Scores per part: of "not affected" and of each type, and how familiar the part is."""

    events: Annotated[int, Meta(ge=0, le=10_000)] = 0  # labelled ones that it rests on; 0: nothing is known
    novel: bool = True  # the incident is unlike all of them
    types: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=MOST_TYPES)] = []
    scores: Annotated[
        list[Annotated[list[Score], Meta(max_length=MOST_TYPES + 1)]], Meta(max_length=MOST_PARTS)
    ] = []
    support: Annotated[list[Score], Meta(max_length=MOST_PARTS)] = []

    def fits(self, asked: Any) -> bool:
        if not isinstance(asked, FootprintQuestion):
            return False
        if self.events == 0 or self.novel:
            return not self.scores
        parts, columns = len(asked.parts), 1 + max(len(self.types), 1)  # events without a type have one
        return len(self.scores) == len(self.support) == parts and all(
            len(row) == columns for row in self.scores
        )


class TriageQuestion(Question, frozen=True, kw_only=True, tag="triage.question"):
    """Which critical samples have you shared?"""

    about: Literal["alarm", "type"]


class TriageAnswer(Answer, frozen=True, kw_only=True, tag="triage.answer"):
    """Those of a file that `detector federate export` would write; null: none are shared."""

    critical: dict[str, Any] | None = None

    def fits(self, asked: Any) -> bool:
        return isinstance(asked, TriageQuestion)


ANSWERS: dict[type[Question], type[Answer]] = {
    RegimeQuestion: RegimeAnswer,
    FootprintQuestion: FootprintAnswer,
    TriageQuestion: TriageAnswer,
}
Said = RegimeQuestion | RegimeAnswer | FootprintQuestion | FootprintAnswer | TriageQuestion | TriageAnswer


def parse(body: bytes) -> Message:
    """ValueError says what is wrong: cut off, foreign, of another version."""
    if len(body) > MAX_BYTES:
        raise ValueError(f"{len(body)} bytes, at most {MAX_BYTES} are read")
    try:
        said: Message = msgspec.json.decode(body, type=Said)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if said.version != VERSION:
        raise ValueError(f"a message of version {said.version}, this detector reads {VERSION}")
    return said


def subject(message: Message) -> type[Question]:
    """What kind of question it is, or answers."""
    return next(asked for asked, given in ANSWERS.items() if isinstance(message, (asked, given)))


def answer(question: Question, sender: str, said: dict[str, Any]) -> Answer:
    """With the fields of its kind."""
    return ANSWERS[type(question)](
        id=f"{question.id}-{sender}", sender=sender, question=question.id, spec=question.spec, **said
    )


def record(message: Message) -> dict[str, Any]:
    """As a sink takes it."""
    made: dict[str, Any] = msgspec.to_builtins(message)
    return made


def rows(group: Sequence[Sequence[float]]) -> Floats:
    """Rows (n, p); ValueError if they do not fit together."""
    try:
        return np.array(group, np.float64)
    except ValueError:
        raise ValueError("points of different lengths") from None
