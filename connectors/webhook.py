"""Records to any HTTP receiver: one POST each, or in batches; signed if wanted."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pydantic import Field, field_validator

from connectors.base import Accepted, Sink, unheard
from connectors.settings.http_client import HttpClient, HttpSettings, json_headers
from connectors.settings.secrets import FilePath, Secret

FORBIDDEN = {
    "authorization",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "transfer-encoding",
}


class WebhookSink(Sink):
    """POSTs records as JSON; `Idempotency-Key` lets the receiver drop a repeat after a crash.

    One record a request: the body is the record, the key its id. With `batch` above 1 the body is an
    array and the key a digest of the ids in it.
    """

    name = "webhook"
    example = ("url: http://127.0.0.1:8080/incidents",)

    class Config(HttpSettings):
        batch: int = Field(default=1, description="Largest number of records per request.", ge=1, le=1000)
        headers_extra: dict[str, str] = Field(
            default_factory=dict, description="Further request headers; no secrets here."
        )
        signing_key: Secret = Field(default=None, description="Key of the HMAC signature, as ${VARIABLE}.")
        signing_key_file: FilePath | None = Field(default=None, description="File with the signing key.")

        @field_validator("headers_extra")
        @classmethod
        def _plain(cls, headers: dict[str, str]) -> dict[str, str]:
            for name, value in headers.items():
                if not name.replace("-", "").isalnum() or not value.isprintable():
                    raise ValueError(f"not a header: {name!r}")
                if name.lower() in FORBIDDEN:
                    raise ValueError(f"{name} is set by other settings")
            return headers

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._client = HttpClient(config)

    async def open(self) -> None:
        await self._client.reach()

    async def write(self, records: Sequence[Mapping[str, Any]], accepted: Accepted = unheard) -> None:
        for i in range(0, len(records), self.config.batch):
            part = records[i : i + self.config.batch]
            ids = [str(record["id"]) for record in part]
            if self.config.batch == 1:
                body, key = msgspec.json.encode(part[0]), _header_safe(ids[0])
            else:
                body, key = msgspec.json.encode(part), _digest(ids)
            headers = json_headers(**{"Idempotency-Key": key}, **self.config.headers_extra)
            await self._client.post(self.config.url, body, headers | self._signature(body))
            for id in ids:
                accepted(id)

    def _signature(self, body: bytes) -> dict[str, str]:
        """HMAC-SHA256 over `time.body`: the receiver can refuse forgeries and old copies."""
        key = self.config.secret("signing_key")
        if key is None:
            return {}
        moment = str(int(time.time()))
        digest = hmac.new(key.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
        return {"X-Detector-Time": moment, "X-Detector-Signature": f"sha256={digest}"}

    async def close(self) -> None:
        await self._client.close()


def _header_safe(text: str) -> str:
    return text if text.isascii() and text.isprintable() and len(text) <= 256 else _digest([text])


def _digest(ids: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()
