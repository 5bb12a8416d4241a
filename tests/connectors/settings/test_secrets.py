"""Secrets come from file or environment only, and are shown nowhere."""

from __future__ import annotations

import asyncio
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from connectors import SINKS, SOURCES, ConnectorError, MissingLibrary, sink, source
from connectors.base import install_line
from connectors.settings.secrets import Tls, WithSecrets
from connectors.webhook import WebhookSink

CANARY = "canary-9f3a7"
MODELS = [source(name).Config for name in SOURCES] + [sink(name).Config for name in SINKS] + [Tls]
SECRETS = [
    (model, field) for model in MODELS if issubclass(model, WithSecrets) for field in model.secret_names()
]


def test_there_are_secrets_to_test() -> None:
    assert len(SECRETS) > 15


@pytest.mark.parametrize(("model", "field"), SECRETS)
def test_a_literal_secret_is_refused_and_not_echoed(model: type[WithSecrets], field: str) -> None:
    """Not in the message, not in the details, not in a traceback."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate({field: CANARY, "unknown": 1})
    error = caught.value
    assert f"{field}_file" in str(error)
    shown = (
        str(error)
        + repr(error)
        + repr(error.errors())
        + error.json()
        + "".join(traceback.format_exception(error))
    )
    assert CANARY not in shown


@pytest.mark.parametrize(("model", "field"), SECRETS)
def test_a_secret_from_the_environment_is_not_shown(
    model: type[WithSecrets], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_VARIABLE", CANARY)
    given = model.model_construct(**model._take_secrets({field: "${CANARY_VARIABLE}"}))
    assert given.secret(field) == CANARY
    assert CANARY not in repr(given) + str(given)
    with pytest.raises(ValidationError) as caught:
        model.model_validate({field: "${CANARY_VARIABLE}", "unknown": 1})
    assert CANARY not in str(caught.value) + repr(caught.value.errors())


@pytest.mark.parametrize(("model", "field"), SECRETS)
def test_both_ways_at_once_are_refused(
    model: type[WithSecrets], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_VARIABLE", CANARY)
    with pytest.raises(ValidationError, match="not both"):
        model.model_validate({field: "${CANARY_VARIABLE}", field + "_file": "/a"})


def config(**more: Any) -> WebhookSink.Config:
    return WebhookSink.Config.model_validate({"url": "https://h/", **more})


def test_environment_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABSENT", raising=False)
    with pytest.raises(ValidationError, match="ABSENT is not set"):
        config(token="${ABSENT}")


def test_files_are_read_at_use_and_again_after_rotation(tmp_path: Path) -> None:
    path = tmp_path / "token"
    found = config(token_file=str(path))
    with pytest.raises(ConnectorError) as caught:
        found.headers()
    assert not caught.value.retry
    path.write_text("one\n")
    assert found.headers() == {"Authorization": "Bearer one"}
    path.write_text("two\n")
    assert found.headers() == {"Authorization": "Bearer two"}
    path.write_text("\n")
    with pytest.raises(ConnectorError, match="empty"):
        found.headers()


def test_a_dump_shows_stars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_VARIABLE", CANARY)
    found = config(token="${CANARY_VARIABLE}")
    assert CANARY not in found.model_dump_json() + str(found.model_dump()) + repr(found)
    assert found.headers()["Authorization"].endswith(CANARY)


def test_credentials_in_an_address_are_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        config(url=f"https://user:{CANARY}@h/")
    assert CANARY not in str(caught.value)
    with pytest.raises(ValidationError) as caught:
        source("nats").Config.model_validate({"stream": "s", "servers": [f"nats://user:{CANARY}@h"]})
    assert CANARY not in str(caught.value)


def test_unusable_tls_files_are_errors_without_retry(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="belong together"):
        Tls.model_validate({"cert_file": "/a"})
    with pytest.raises(ConnectorError) as caught:
        Tls.model_validate({"ca_file": str(tmp_path / "absent")}).context()
    assert not caught.value.retry


@pytest.mark.parametrize("name", ["mqtt", "kafka", "redis", "nats"])
def test_a_missing_library_is_told_with_its_install_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told without connecting, and again by `open`; configurations can be checked without it."""
    for module in source(name).modules:
        monkeypatch.setitem(sys.modules, module, None)
    line = install_line(name)
    library = {
        "mqtt": "paho-mqtt",
        "kafka": "confluent-kafka",
        "redis": r"redis\[hiredis\]",
        "nats": "nats-py",
    }[name]
    assert re.fullmatch(rf"pip install '{library}<\d+,>=[\d.]+'", line)
    assert source(name).missing() == line
    needed = {"mqtt": {"host": "h", "topics": ["t"]}, "kafka": {"brokers": ["h:1"], "topics": ["t"]},
              "redis": {"streams": ["s"]}, "nats": {"stream": "s"}}[name]  # fmt: skip
    connector = source(name)(source(name).Config.model_validate(needed))  # type: ignore[call-arg]
    with pytest.raises(MissingLibrary, match=re.escape(line)):
        asyncio.run(connector.open(None))
