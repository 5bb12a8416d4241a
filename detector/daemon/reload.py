"""Taking over a changed configuration while running: all of it, or nothing.

Everything that can be refused comes first: reading, building, binding an address, fitting the pipeline. Then
sources and sinks that changed are replaced; the rest keep their connections, and unchanged nodes their state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from connectors.base import ConnectorError
from detector.config.config import Config, ConfigError
from detector.daemon.startup import greeting, warn
from detector.notify.routing import wanted
from detector.runtime import logs
from detector.runtime.pipeline_thread import Plan
from detector.settings.changes import Change, changes
from detector.storage.upkeep import Bounds

if TYPE_CHECKING:
    from detector.daemon.daemon import Daemon

log = logging.getLogger("detector.reload")
CLOSE_S = 2.0


class Refused(Exception):
    """The new configuration cannot be taken over while running."""


async def reload(daemon: Daemon) -> None:
    """Read the file again and apply it; if anything is wrong with it, say so and go on as before."""
    daemon.notifier.reloading()
    try:
        changed = await _apply(daemon)
    except (ConfigError, ConnectorError, OSError, Refused, ValueError) as error:
        daemon.reload_error = str(error)
        daemon.metrics.set("config_last_reload_successful", 0)
        log.error("configuration refused, the running one stays: %s", error)
    else:
        daemon.reload_error = None
        daemon.metrics.set("config_last_reload_successful", 1)
        daemon.metrics.set("config_last_reload_timestamp_seconds", time.time())
        keys = ", ".join(change.key for change in changed)
        log.info("configuration taken over; changed: %s", keys or "nothing")
    finally:
        daemon.notifier.ready()
        daemon.notifier.status(daemon.status.line())


async def _apply(daemon: Daemon) -> list[Change]:
    """What has changed, once it counts."""
    old = daemon.config
    if old.path is None:
        raise Refused("the configuration did not come from a file")
    in_file = await asyncio.to_thread(Config.load, old.path)
    new = daemon.budget.of(in_file)
    logs.hide(logs.secrets_of(new))
    changed = list(changes(old, new))
    if fixed := [change.key for change in changed if change.applies == "restart"]:
        raise Refused(f"{', '.join(fixed)} cannot change while running: restart instead")
    if _reserved_for_edge(new) != _reserved_for_edge(old):
        raise Refused("the source and the sink of edge cannot change while running: restart instead")
    sources, sinks = new.source_objects(), {} if daemon.dry_run else new.sink_objects()
    plan = await asyncio.to_thread(Plan.of, new)
    prepared = await daemon.http.prepare(new.http) if daemon.http is not None else None
    if plan != daemon.worker.plan:
        try:
            await daemon.ingest_queue.order("rebuild", {"plan": plan})
        except BaseException:
            if prepared is not None:
                prepared.discard()
            raise
    # From here on nothing can be refused.
    daemon.config = new
    await daemon.budget.adopt(in_file)
    daemon.intake.merge.settings = plan.settings.align
    daemon.recorder.settings = new.state
    daemon.recorder.routing.adopt(new.notify)
    daemon.recorder.store.bounds = Bounds.of(new.state, new.diagnosis)
    daemon.diagnosis.adopt(new.diagnosis)
    warn(new)
    if _exchange(new) != _exchange(old):
        daemon.connect_peers()
    if daemon.http is not None and prepared is not None:
        await daemon.http.adopt(prepared)
    await _exchange_sources(daemon, old, sources)
    await _exchange_sinks(daemon, old, sinks)
    return changed


def _exchange(config: Config) -> Any:
    """All that the exchange with other daemons depends on."""
    exchange = config.exchange
    return exchange and (exchange, config.sources[exchange.source], config.sinks[exchange.sink])


def _reserved_for_edge(config: Config) -> Any:
    """The connectors to the boxes of the same network."""
    edge = config.edge
    return edge and (config.sources.get(edge.source or ""), config.sinks.get(edge.sink or ""))


async def _exchange_sources(daemon: Daemon, old: Config, sources: dict[str, Any]) -> None:
    new = daemon.config
    gone = [
        name for name, reader in daemon.readers.items()
        if name not in sources or new.sources[name] != old.sources.get(name) or reader.status == "failed"
    ]  # fmt: skip
    await asyncio.gather(*(daemon.readers[name].stop_reading() for name in gone))
    if gone:
        # What they have read goes through the pipeline first; what others are too far behind for comes again.
        for name in gone:
            daemon.intake.end(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await daemon.intake.drained(gone)
        await daemon.ingest_queue.order("pass", {})
        await daemon.recorder.commit()
    for name in gone:
        await daemon.readers.pop(name).close(CLOSE_S)
        daemon.intake.forget(name)
        if name not in sources:
            daemon.metrics.forget("source", name)
    for name, source in sources.items():
        if name not in daemon.readers:
            daemon.add_reader(name, source).start()
        else:
            daemon.readers[name].source.expect(daemon.worker.plan.expected)


async def _exchange_sinks(daemon: Daemon, old: Config, sinks: dict[str, Any]) -> None:
    new = daemon.config
    waiting: dict[str, list[Any]] = {}
    for name in list(daemon.deliveries):
        changed = name not in sinks or new.sinks[name] != old.sinks.get(name)
        if changed or daemon.deliveries[name].status == "failed":
            delivery = daemon.deliveries.pop(name)
            await delivery.close(CLOSE_S)
            waiting[name] = delivery.outbox.records
            if name not in sinks:
                daemon.metrics.forget("sink", name)
    told = await greeting(daemon, {name: one for name, one in sinks.items() if name not in daemon.deliveries})
    for name, sink in sinks.items():
        if name not in daemon.deliveries:
            delivery = daemon.add_delivery(name, sink)
            delivery.add(waiting.get(name, []))
            delivery.start(wanted(told, name))
    daemon.recorder.sinks = tuple(daemon.deliveries)
    for delivery in daemon.deliveries.values():
        state = new.state
        delivery.outbox.limit(state.outbox_records, state.outbox_size, state.outbox_full)
        delivery.tries = state.outbox_tries
    lost = [record.id for name in waiting if name not in sinks for record in waiting[name]]
    if lost:
        log.warning("%d records waited for sinks that are gone; forgotten", len(lost))
        for name in waiting:
            if name not in sinks:
                daemon.recorder.delivered(name, [record.id for record in waiting[name]])
