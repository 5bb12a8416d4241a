"""`detector send-test-alert`: a made-up incident through the real sinks."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import click

from connectors.settings.units import parse_duration
from detector.cli.common import UNAVAILABLE, Failure, load_config, print_json
from detector.cli.options import config_option, json_option

TEXT = "Test alert: somebody ran `detector send-test-alert`; nothing has changed"


@click.command("send-test-alert")
@config_option
@click.option("--sink", "names", multiple=True, metavar="NAME", help="Only this sink; may be repeated.")
@click.option(
    "--open-for",
    default="45s",
    show_default=True,
    metavar="TIME",
    help="How long it stays open at sinks that wait before they notify.",
)
@click.option(
    "--severity",
    type=click.Choice(["info", "warning", "critical"]),
    default="info",
    show_default=True,
    help="Severity of the incident, to test routes.",
)
@click.option("--timeout", default=15.0, show_default=True, help="Seconds to wait for each sink.")
@json_option
def send_test_alert(config_path: Path, names: tuple[str, ...], open_for: str, severity: str, timeout: float,
                    as_json: bool) -> None:  # fmt: skip
    """Send a test incident to the sinks: it opens, and is resolved.

    Sinks that wait before they notify, such as Alertmanager, receive its end some time after its opening.
    """
    try:
        seconds = parse_duration(open_for)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--open-for") from None
    config = load_config(config_path)
    sinks = config.sink_objects()
    unknown = [name for name in names if name not in sinks]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is none of {', '.join(sinks) or 'the sinks: there are none'}"
        )
    if not sinks:
        raise Failure(f"{config_path}: sinks: there are none")
    chosen = {name: sink for name, sink in sinks.items() if not names or name in names}
    patient = [name for name, sink in chosen.items() if sink.wants_open_incidents]
    if patient and not as_json:
        click.echo(f"{', '.join(patient)}: open for {open_for}, so that somebody is notified ...", err=True)
    said = asyncio.run(_send(chosen, made_up_incident(time.time(), severity, seconds), seconds, timeout))
    if as_json:
        print_json(said)
    else:
        for name, answer in said.items():
            click.echo(f"{name}: {answer}", err=True)
    failed = [name for name, answer in said.items() if answer != "sent"]
    if failed:
        raise Failure(f"{len(failed)} of {len(said)} sinks failed: {', '.join(failed)}", UNAVAILABLE)


def made_up_incident(now: float, severity: str = "info", lasts: float = 0.0) -> list[dict[str, Any]]:
    """An incident that opens and is resolved: some sinks pass over records that belong to none."""
    from detector.events.model import Event, digest, iso

    incident = f"test-{digest('test alert', now)}"
    common: dict[str, Any] = {"time": now, "time_iso": iso(now), "summary": TEXT, "incident": incident,
                              "opened": now, "by": "operator", "details": {"test": True},
                              "severity": severity, "severity_now": severity}  # fmt: skip
    opened = Event(id=f"{incident}-1", event="incident.opened", sequence=1, **common)
    common |= {"resolution": "cleared", "time": now + lasts, "time_iso": iso(now + lasts)}
    resolved = Event(id=f"{incident}-2", event="incident.resolved", sequence=2, **common)
    return [opened.record(), resolved.record()]


async def _send(
    sinks: dict[str, Any], records: list[dict[str, Any]], open_for: float, timeout: float
) -> dict[str, str]:
    answers = await asyncio.gather(*(_deliver(sink, records, open_for, timeout) for sink in sinks.values()))
    return dict(zip(sinks, answers, strict=True))


async def _deliver(sink: Any, records: list[dict[str, Any]], open_for: float, timeout: float) -> str:
    opened, resolved = records
    try:
        async with asyncio.timeout(timeout):
            await sink.open()
            await sink.write([opened] if sink.wants_open_incidents else records)
        if sink.wants_open_incidents:
            await asyncio.sleep(open_for)
            async with asyncio.timeout(timeout):
                await sink.write([resolved])
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except Exception as error:
        return str(error) or type(error).__name__
    else:
        return "sent"
    finally:
        try:
            async with asyncio.timeout(timeout):
                await sink.close()
        except Exception:
            pass  # what matters was said by the delivery
