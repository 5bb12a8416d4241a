"""What all HTTP clients among the connectors share: address, credentials, TLS, bounded answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import hdrs
from pydantic import Field, field_validator, model_validator

from connectors.base import ConnectorError
from connectors.settings.secrets import FilePath, Secret, Tls, WithSecrets
from connectors.settings.units import Duration

# Answers that say "never this record", as opposed to "not now" or "not with this token".
REFUSED = {400, 405, 410, 413, 414, 415, 422}
TOO_MANY, UNAVAILABLE = 429, 503
PAUSE_S, LONGEST_PAUSE_S = 1.0, 3600.0  # where a receiver does not say how long, or says too much


class HttpSettings(WithSecrets):
    """Address and credentials of an HTTP peer."""

    url: str = Field(description="Address, http:// or https://.")
    token: Secret = Field(default=None, description="Bearer token, as ${VARIABLE}.")
    token_file: FilePath | None = Field(default=None, description="File with the bearer token.")
    username: str | None = Field(default=None, description="User name for basic authentication.")
    password: Secret = Field(default=None, description="Password, as ${VARIABLE}.")
    password_file: FilePath | None = Field(default=None, description="File with the password.")
    tls: Tls | None = Field(default=None, description="TLS settings for https.")
    timeout: Duration = Field(default=10.0, description="Longest time for one request.", gt=0)

    @field_validator("url")
    @classmethod
    def _usable(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise ValueError("must be an http:// or https:// address")
        if parts.username is not None or parts.password is not None:
            raise ValueError("may not hold a user or password: use username and password_file")
        return url

    @model_validator(mode="after")
    def _one_way_in(self) -> HttpSettings:
        token = self.token is not None or self.token_file is not None
        if token and self.username is not None:
            raise ValueError("give a token or a username, not both")
        return self

    def headers(self) -> dict[str, str]:
        """Authorization, read anew so that a rotated file is picked up."""
        token = self.secret("token")
        if token is not None:
            return {"Authorization": f"Bearer {token}"}
        if self.username is not None:
            login = aiohttp.BasicAuth(self.username, self.secret("password") or "")
            return {"Authorization": login.encode()}
        return {}


class HttpClient:
    """A session that opens on first use. Redirects are not followed: they would carry the token."""

    def __init__(self, config: HttpSettings) -> None:
        self.config = config
        self._session: aiohttp.ClientSession | None = None

    async def reach(self) -> None:
        """Connect, check the certificate, say nothing, hang up: a POST could mean something over there."""
        self.config.headers()  # a secret that cannot be read is told now
        parts = urlsplit(self.config.url)
        context = (self.config.tls or Tls()).context() if parts.scheme == "https" else None
        port = parts.port or (80 if context is None else 443)
        try:
            async with asyncio.timeout(self.config.timeout):
                _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
                writer.close()
        except (TimeoutError, OSError) as error:
            raise self._failed(self.config.url, error) from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            context = (self.config.tls or Tls()).context()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context, limit=8),
                timeout=aiohttp.ClientTimeout(total=self.config.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def post(
        self,
        url: str,
        data: bytes | Mapping[str, str],
        headers: Mapping[str, str],
        limit: int = 65536,
    ) -> bytes:
        """POST; the answer's body up to `limit`. Anything but 2xx raises."""
        session = self._open()
        try:
            async with session.post(
                url, data=data, headers={**self.config.headers(), **headers}, allow_redirects=False
            ) as answer:
                body = bytearray()
                async for chunk in answer.content.iter_any():
                    body += chunk
                    if len(body) > limit:
                        raise ConnectorError(f"{self._place(url)}: answer above {limit} bytes", retry=True)
                if not 200 <= answer.status < 300:
                    words = bytes(body[:200]).decode(errors="replace")
                    said = "".join(c for c in words if c.isprintable())
                    raise ConnectorError(
                        f"{self._place(url)}: HTTP {answer.status} {said}".rstrip(),
                        retry=answer.status not in REFUSED,
                        after=pause(answer.status, answer.headers.get(hdrs.RETRY_AFTER)),
                    )
                return bytes(body)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failed(url, error) from None

    def _failed(self, url: str, error: Exception) -> ConnectorError:
        late = isinstance(error, TimeoutError)
        said = f"no answer within {self.config.timeout:g} s" if late else str(error)
        return ConnectorError(f"{self._place(url)}: {said or type(error).__name__}", retry=True)

    def _place(self, url: str) -> str:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}:{parts.port or ''}".rstrip(":")

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def pause(status: int, wanted: str | None) -> float | None:
    """How long a receiver asks us to wait (RFC 9110, 10.2.3: seconds or a date); None if it does not.

    Examples
    --------
    >>> pause(429, "30"), pause(429, None), pause(503, None), pause(500, "30")
    (30.0, 1.0, None, None)
    """
    if status != TOO_MANY and (status != UNAVAILABLE or wanted is None):
        return None
    text = (wanted or "").strip()
    seconds = PAUSE_S
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    elif text:
        try:
            moment = parsedate_to_datetime(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = (moment - datetime.now(UTC)).total_seconds()
        except ValueError:
            pass  # neither: as if it had not said how long
    return min(max(seconds, 0.0), LONGEST_PAUSE_S)


def json_headers(**more: Any) -> dict[str, str]:
    return {"Content-Type": "application/json", "User-Agent": "detector", **more}
