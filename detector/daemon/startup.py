"""Starting: what can fail before the daemon is ready, and how the process ends then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from connectors.base import ConnectorError, Sink
from detector.config.config import Config, ConfigError
from detector.config.edge import key_of
from detector.daemon.boundary_exchange import BoundaryExchange
from detector.daemon.http_service import HttpService
from detector.engines.base import EngineUnavailable
from detector.http.server import HttpServer
from detector.runtime.pipeline_thread import Plan
from detector.settings.changes import RelearnNeeded
from detector.storage.database import StateError, StateInUse, StateRefused, StateUnavailable
from detector.storage.journal import Entry
from detector.storage.records import Record
from detector.storage.store import Store
from detector.storage.upkeep import Bounds

if TYPE_CHECKING:
    from detector.daemon.daemon import Daemon

log = logging.getLogger("detector")
EXIT_OK, EXIT_FAILED, EXIT_UNAVAILABLE, EXIT_IO, EXIT_IN_USE, EXIT_CONFIG = 0, 1, 69, 74, 75, 78


class Fatal(Exception):
    """Nothing more can be done in this process; `code` is what it exits with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def warn(config: Config) -> None:
    """Of what will not be accepted for ever."""
    for problem in config.old_names():
        log.warning("%s", problem)


async def open_store(config: Config) -> Store:
    try:
        return await asyncio.to_thread(
            Store, config.state.folder(), Bounds.of(config.state, config.diagnosis)
        )
    except StateUnavailable as error:
        raise Fatal(f"state cannot be opened: {error}", EXIT_IO) from None
    except StateInUse as error:
        raise Fatal(str(error), EXIT_IN_USE) from None
    except StateError as error:
        raise Fatal(f"state cannot be used: {error}", EXIT_CONFIG) from None


def plan(config: Config) -> Plan:
    try:
        return Plan.of(config)
    except ConfigError as error:
        raise Fatal(str(error), EXIT_CONFIG) from None


async def restore(daemon: Daemon, store: Store) -> None:
    """Snapshot, then journal, through the pipeline; events of the journal were said before."""
    try:
        snapshot = await daemon.recorder.ask(store.load)
        positions = dict(snapshot.positions) if snapshot is not None else {}
        seq = snapshot.seq if snapshot is not None else 0
        restoring = asyncio.create_task(
            daemon.worker.run(daemon.worker.start, snapshot, _noting(store.journal(seq), positions))
        )
        while not restoring.done():
            # A long journal must not be taken for a hang, by systemd or by a person.
            daemon.notifier.extend(30)
            if daemon.signals.stop.is_set():
                daemon.worker.stopping = True
            await asyncio.wait([restoring], timeout=2.0)
        events, repeated = await restoring
    except StateUnavailable as error:
        raise Fatal(f"state cannot be read: {error}", EXIT_IO) from None
    except EngineUnavailable as error:
        raise Fatal(str(error), EXIT_IO) from None
    except RelearnNeeded as error:
        raise Fatal(f"the stored state does not fit this configuration: {error}", EXIT_CONFIG) from error
    except (StateError, ValueError) as error:
        raise Fatal(
            f"the stored state does not fit this configuration: {error}; use another state.directory, "
            "or move the old one away", EXIT_CONFIG,
        ) from error  # fmt: skip
    finally:
        daemon.recorder.report_damage()
    daemon.recorder.positions = positions
    daemon.status.baseline()
    await daemon.status.load()
    if not daemon.dry_run:  # to whom the records of the journal are addressed
        daemon.recorder.sinks = tuple(daemon.config.sink_objects())
    fresh = await daemon.recorder.add([], events, None)
    if snapshot is not None or repeated:
        log.info(
            "state restored: snapshot %s, %d samples repeated, phase %s",
            "none" if snapshot is None else f"of {max(0.0, time.time() - snapshot.created):.0f} s ago",
            repeated, daemon.worker.view.phase,
        )  # fmt: skip
    if fresh:
        log.warning("%d records of the journal were not known; they are sent now", len(fresh))


def boundary_exchange(daemon: Daemon) -> BoundaryExchange | None:
    """With the boxes that watch the rest of the network, as the configuration has it."""
    config = daemon.config
    if daemon.dry_run or config.edge is None or config.edge.box is None:
        return None
    pair = config.edge_connectors()
    assert pair is not None  # the configuration has seen to it
    try:
        key = key_of(config)
    except ConfigError as error:
        raise Fatal(str(error), EXIT_CONFIG) from None
    return BoundaryExchange(config.edge.box, key, *pair, daemon.metrics)


async def open_outboxes(daemon: Daemon) -> None:
    sinks = {} if daemon.dry_run else daemon.config.sink_objects()
    if not daemon.dry_run:  # what waits for the sinks must survive a dry run
        dropped = await _state(daemon, daemon.recorder.store.drop_sinks, tuple(sinks))
        if dropped:
            log.warning("%d records waited for sinks that are no longer configured; forgotten", dropped)
    for name, sink in sinks.items():
        delivery = daemon.add_delivery(name, sink)
        delivery.add(await _state(daemon, daemon.recorder.store.pending, name))


async def _state(daemon: Daemon, question: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return await daemon.recorder.ask(question, *arguments)
    except StateRefused as error:
        raise Fatal(str(error), EXIT_CONFIG) from None
    except StateError as error:
        raise Fatal(f"state cannot be used: {error}", EXIT_IO) from None


async def open_listener(daemon: Daemon) -> None:
    if not daemon.config.http.enabled:
        return
    daemon.http = HttpServer(HttpService(daemon), daemon.config.http)
    try:
        await daemon.http.start()
    except OSError as error:
        raise Fatal(f"cannot listen: {error}", EXIT_UNAVAILABLE) from None
    except ConnectorError as error:
        raise Fatal(str(error), EXIT_CONFIG) from None


async def greeting(daemon: Daemon, sinks: Mapping[str, Sink]) -> list[Record]:
    """The latest record of each open incident that tells its state, for sinks: labels and findings do not."""
    found, eager = [], [name for name, sink in sinks.items() if sink.wants_open_incidents]
    for id, event in daemon.worker.view.open_incidents.items():
        record = Record.of(event)
        if event.event == "incident.labelled":
            stored = await daemon.recorder.ask(daemon.recorder.store.incident, id)
            earlier = [r for r in stored if r.event in ("incident.opened", "incident.updated")]
            record = earlier[-1] if earlier else record
        found.append(daemon.recorder.routing.greet(record, eager))
    return found


def _noting(entries: Iterator[Entry], positions: dict[str, Any]) -> Iterator[Entry]:
    """The entries of a journal, with the sources' positions noted as they pass."""
    for entry in entries:
        yield entry
        if entry.source is not None:
            positions[entry.source] = entry.position
