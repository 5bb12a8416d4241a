"""Asking the running daemon over its own HTTP interface, with the address and token of the configuration."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from connectors.base import ConnectorError
from detector.cli.common import RUNTIME, UNAVAILABLE, Failure
from detector.settings.service import ROLES

if TYPE_CHECKING:
    from detector.config.config import Config

TIMEOUT_S = 10.0
TOKEN_VARIABLE = "DETECTOR_TOKEN"  # whose name is to stand in the audit trail
MAX_ANSWER = 64 * 2**20


class NotRunning(Failure):
    """Nobody answers at the daemon's address."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"no daemon answers at {where}: {why}", UNAVAILABLE)


class Daemon:
    """One request, one connection."""

    def __init__(self, config: Config) -> None:
        self._http = config.http
        where = config.path or "the configuration"
        if not self._http.enabled:
            raise NotRunning("its address", f"http.enabled is false in {where}")
        if self._http.port == 0:
            raise NotRunning("its address", f"http.port is 0 in {where}, a free port that only it knows")
        # A wildcard address is one to listen on, not one to call.
        self._host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._http.host, self._http.host)
        self.address = f"{self._host}:{self._http.port}"

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a question; 503 is an answer, too: not ready, and why."""
        status, answer = self._ask("GET", path + (f"?{urlencode(query)}" if query else ""), None)
        return _good(status, answer, {200, 503})

    def post(self, path: str, body: dict[str, Any]) -> Any:
        status, answer = self._ask("POST", path, body)
        return _good(status, answer, {200, 202, 204})

    def act(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Have something done that may take long: asked for again until it is."""
        status, answer = self._ask("POST", path, body)
        while status == 202:
            status, answer = self._ask("GET", f"/api/v1/diagnosis/actions/{answer['action']}", None)
        done: dict[str, Any] = _good(status, answer, {200})
        return done

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        headers = {"Accept": "application/json"}
        token = self._token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = self._connection()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            raw = answer.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise NotRunning(self.address, getattr(error, "strerror", None) or str(error)) from None
        finally:
            connection.close()
        try:
            return answer.status, json.loads(raw) if raw.strip() else None
        except ValueError:
            return answer.status, raw.decode(errors="replace")[:200]

    def _token(self) -> str | None:
        """From the environment, else the one of the configuration that may do most."""
        if given := os.environ.get(TOKEN_VARIABLE):
            return given
        if (single := self._http.secret("token")) is not None:
            return single
        for one in sorted(self._http.tokens, key=lambda one: -ROLES.index(one.role)):
            try:
                return one.secret("token")
            except ConnectorError:  # somebody else's file
                continue
        return None

    def _connection(self) -> http.client.HTTPConnection:
        tls = self._http.tls
        if tls is None:
            return http.client.HTTPConnection(self._host, self._http.port, timeout=TIMEOUT_S)
        # We know the daemon's certificate: that one is trusted, whatever name is on it.
        context = ssl.create_default_context(cafile=str(tls.cert_file))
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if tls.client_ca_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file, tls.secret("key_password") or "")
        return http.client.HTTPSConnection(self._host, self._http.port, timeout=TIMEOUT_S, context=context)


def incident_path(incident: str, action: str = "") -> str:
    """The path of an incident; ids come from people, and may hold anything."""
    return f"/api/v1/incidents/{quote(incident, safe='')}" + (f"/{action}" if action else "")


def _good(status: int, answer: Any, good: set[int]) -> Any:
    if status in good:
        return answer
    said = answer.get("error", answer) if isinstance(answer, dict) else answer
    if status in (401, 403):
        raise Failure(f"the daemon refuses the token (http.token or http.token_file): {said}", RUNTIME)
    if status in (404, 409):
        raise Failure(f"{said}", RUNTIME)
    raise Failure(f"the daemon answered {status}: {said}", RUNTIME)
