"""The other boxes as one of them sees them, in its own time: what was told of which tick, and who is silent.

    tick t of ours reads what a neighbour told of tick t - 1, or of the latest before it
    age = t - 1 - that tick;   age > patience: its nodes are taken to be quiet until it is heard again

Pure: what is heard enters in turn with the samples and is in the journal, so that a restart comes to the
same. What is told of a tick is the same after a restart, too: who hears it twice can drop it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from detector.alignment.ticks import Tick
from detector.edge.common_id import Common
from detector.edge.messages import MOST_ROWS, OpenThere, Refused, Told, cut_up, unpack
from detector.events.model import Event, detector_event
from detector.network.surroundings import Surroundings
from detector.stateful import Arrays, Meta, Rows

if TYPE_CHECKING:
    from detector.engines.density_ratio.boundary import Boundary
    from detector.incidents.tracker import IncidentTracker

WAITING = 16  # ticks of a neighbour that is ahead, and wait for ours; the oldest go first


@dataclass
class Neighbour:
    """One other box."""

    name: str
    numbers: NDArray[np.intp]  # in the whole network, of the nodes that it tells of, in that order
    ghosts: NDArray[np.intp]  # ours that are copies of them
    places: NDArray[np.intp]  # where these are among the numbers
    waiting: list[tuple[tuple[int, int], int, bytes]] = field(default_factory=list)  # by epoch and tick
    newest: dict[int, tuple[int, int]] = field(default_factory=dict)  # first row: epoch and tick heard last
    used: dict[int, tuple[int, int]] = field(default_factory=dict)  # first row: epoch and tick in use
    since: int | None = None  # tick from which on it could have been heard
    lost: bool = False  # its nodes are taken to be quiet, and that was told
    there: list[OpenThere] = field(default_factory=list)  # incidents open near the cut

    def age(self, tick: int) -> int:
        """Ticks beyond the one that is always between two boxes."""
        begun = (tick if self.since is None else self.since) - 1
        return max(tick - 1 - min((used[1] for used in self.used.values()), default=begun), 0)

    @property
    def up(self) -> bool:
        """Whether what is known of it counts."""
        return bool(self.used) and not self.lost

    def forget(self) -> None:
        """Nothing of it is known; it is heard anew."""
        self.used, self.since, self.there = {}, None, []


class Neighbours:
    """Of one box: a part of its pipeline, once that has learnt."""

    def __init__(self, surroundings: Surroundings, width: int, parameters: int, spec: str) -> None:
        """``width``: numbers told of a node, of which the first are parameters; ``spec``: what they mean."""
        self.surroundings, self.width, self.parameters, self.spec = surroundings, width, parameters, spec
        self.network = surroundings.fingerprint
        self.all: dict[str, Neighbour] = {}
        for name in surroundings.neighbours:
            numbers, ghosts = surroundings.told_by(name), surroundings.ghosts_of(name)
            places = np.searchsorted(numbers, surroundings.cut.nodes[ghosts])
            self.all[name] = Neighbour(name, numbers, ghosts, places)
        self.common = Common(surroundings)
        self.epoch = 0
        self.tick: int | None = None

    # ---------------------------------------------------------------------------------- hearing

    def hear(self, body: bytes) -> str:
        """Keep what somebody with the key has told; its sender. `Refused` says why it is of no use."""
        told = unpack(body)
        there = self.all.get(told.sender)
        if there is None and told.sender in self.surroundings.boxes:
            raise Refused("other", f"{told.sender} is no neighbour of this box")
        if there is None:
            raise Refused("stranger", f"{told.sender!r} is no box of the network")
        self._check(told, there)
        if told.age_key <= there.newest.get(told.first, (-1, 0)):
            raise Refused("late", f"{told.sender} told of tick {told.tick}, a later one was heard before")
        if self.tick is not None and told.tick < self.tick - self.surroundings.patience:
            raise Refused("late", f"{told.sender} told of tick {told.tick}, this box is at {self.tick}")
        there.newest[told.first] = told.age_key
        insort(there.waiting, (told.age_key, told.first, body))
        del there.waiting[: -WAITING * (1 + len(there.numbers) // MOST_ROWS)]
        return told.sender

    def _check(self, told: Told, there: Neighbour) -> None:
        around = self.surroundings
        if told.network != self.network:
            raise Refused("network", f"{told.sender} has another graph or edge.boxes than this box")
        if told.budget != around.budget:
            said = f"alarm.budget is {told.budget!r} at {told.sender} and {around.budget!r} here"
            raise Refused("budget", f"{said}: it is that of the whole network")
        if told.spec != self.spec:
            raise Refused(
                "spec", f"{told.sender} has another dictionary or other settings: see edge.dictionary"
            )
        if told.width != self.width or told.first + told.count > len(there.numbers):
            said = f"rows {told.first} to {told.first + told.count} of {told.width} numbers"
            raise Refused(
                "malformed", f"{told.sender} tells {said}; expected {len(there.numbers)} of {self.width}"
            )
        if not np.isfinite(told.boxes()[:, : self.parameters]).all():  # they would stay in ours for ever
            raise Refused("malformed", f"{told.sender} tells parameters that are no numbers")

    def begin(self, tick: Tick, boundary: Boundary) -> list[Event]:
        """A tick of ours begins: what was told of earlier ones goes to the ghosts."""
        away = self.tick is not None and tick.index > self.tick + self.surroundings.patience + 1
        self.tick, events = tick.index, list[Event]()
        for there in self.all.values():
            if away:  # we were silent ourselves, and what was heard before is old
                there.forget()
                boundary.lose(there.ghosts)
            there.since = tick.index if there.since is None else there.since
            due = [one for one in there.waiting if one[0][1] < tick.index]
            there.waiting = [one for one in there.waiting if one[0][1] >= tick.index]
            for key, first, body in due:
                if tick.index - key[1] <= self.surroundings.patience + 1:
                    self._use(there, key, first, body, boundary)
            events += self._judge(there, tick, boundary)
        return events

    def _use(
        self, there: Neighbour, key: tuple[int, int], first: int, body: bytes, boundary: Boundary
    ) -> None:
        told = unpack(body)
        here = (there.places >= first) & (there.places < first + told.count)
        boundary.hear(there.ghosts[here], told.boxes()[there.places[here] - first])
        there.used[first] = key
        if first == 0:
            there.there = list(told.incidents)

    def _judge(self, there: Neighbour, tick: Tick, boundary: Boundary) -> list[Event]:
        """Whether it is lost, or back."""
        age, name = there.age(tick.index), there.name
        late = age > self.surroundings.patience
        if late == there.lost:
            return []
        there.lost = late
        if late:
            boundary.lose(there.ghosts)
            there.there = []
            text = f"neighbour {name} is not heard: its nodes are taken to be quiet until it is"
        else:
            text = f"neighbour {name} is heard again"
        details = {"neighbour": name, "age": age}
        return [detector_event("detector.warning", tick.end, text, details, "warning" if late else "info")]

    # ---------------------------------------------------------------------------------- telling

    def tell(self, tick: Tick, boundary: Boundary, incidents: IncidentTracker) -> list[Told]:
        """A tick of ours has ended: what others read of our nodes, and what is open near the cuts.

        Rows are of the boundary as the engine has them, in the order of number in the whole network.
        """
        around = self.surroundings
        if not self.all or around.box is None:
            return []
        told = Told(
            sender=around.box, epoch=self.epoch, tick=tick.index, network=self.network, budget=around.budget,
            spec=self.spec, first=0, count=0, width=self.width, rows=b"",
            incidents=self.common.near_the_cut(incidents),
        )  # fmt: skip
        return cut_up(told, boundary.told)

    def join(self, incidents: IncidentTracker, events: list[Event], step: float) -> list[Event]:
        """Incidents of ours that belong to those of others get their common id; ``events`` with it."""
        there = [one for there in self.all.values() for one in there.there]
        return self.common.join(incidents, events, there, step)

    def set_back(self) -> None:
        """Our clock was set back: what was heard is of a time to come, and others are told by a new epoch."""
        self.epoch, self.tick = self.epoch + 1, None
        for there in self.all.values():
            there.waiting = []
            there.forget()

    # ---------------------------------------------------------------------------------- state and views

    def ages(self) -> Mapping[str, tuple[int, bool]]:
        """Neighbour: its age in ticks, and whether what is known of it counts."""
        tick = 0 if self.tick is None else self.tick
        return {name: (there.age(tick), there.up) for name, there in self.all.items()}

    def state(self) -> tuple[Arrays, Meta]:
        arrays: Arrays = {}
        for name, there in self.all.items():
            for k, (_, _, body) in enumerate(there.waiting):
                arrays[f"{name}/{k}"] = np.frombuffer(body, np.uint8).copy()
        return arrays, {
            "network": self.network,
            "epoch": self.epoch,
            "tick": self.tick,
            "neighbours": {
                name: {
                    "waiting": [[*key, first] for key, first, _ in there.waiting],
                    "newest": [[first, *key] for first, key in there.newest.items()],
                    "used": [[first, *key] for first, key in there.used.items()],
                    "since": there.since,
                    "lost": there.lost,
                    "there": msgspec.to_builtins(there.there),
                }
                for name, there in self.all.items()
            },
        }

    def restore(self, arrays: Arrays, meta: Meta, rows: Rows) -> None:
        self.epoch, self.tick = int(meta["epoch"]), meta["tick"]
        if meta["network"] != self.network:
            return  # who is where has changed: everybody is heard anew
        for name, said in meta["neighbours"].items():
            there = self.all[name]
            bodies = [arrays[f"{name}/{k}"].tobytes() for k in range(len(said["waiting"]))]
            there.waiting = [
                ((epoch, tick), first, body)
                for (epoch, tick, first), body in zip(said["waiting"], bodies, strict=True)
            ]
            there.newest = {first: (epoch, tick) for first, epoch, tick in said["newest"]}
            there.used = {first: (epoch, tick) for first, epoch, tick in said["used"]}
            there.since, there.lost = said["since"], said["lost"]
            there.there = msgspec.convert(said["there"], list[OpenThere])
