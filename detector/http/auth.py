"""Who may ask, and what: whoever shows a token, by its role; no page of another site in a visitor's name."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from connectors.base import ConnectorError
from connectors.settings.secrets import WithSecrets
from detector.runtime.metrics import Metrics
from detector.settings.service import ROLES, HttpSettings, Role

log = logging.getLogger("detector.http")
SCHEMES = ("Bearer", "Token")  # the second is what Telegraf's InfluxDB v2 output sends


@dataclass(frozen=True)
class Visitor:
    """Who asks: the name for the audit trail, and what is allowed."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


ANYBODY = Visitor("anonymous", "admin")  # where no token is configured
VISITOR: web.RequestKey[Visitor] = web.RequestKey("visitor", Visitor)


def refusal(
    request: web.Request, settings: HttpSettings, metrics: Metrics, *, needs: Role | None
) -> web.Response | None:
    """The answer for a request that is not to be worked on, or None; then `VISITOR` says who asks."""
    if not _same_origin(request) or not _expected_host(request, settings):
        metrics.count("http_refused_total", reason="origin")
        return web.json_response({"error": "requests of other sites are not answered"}, status=403)
    request[VISITOR] = ANYBODY
    if needs is None or not settings.wants_token:
        return None
    visitor = _visitor(request.headers.get(hdrs.AUTHORIZATION, ""), settings)
    if visitor is None:
        metrics.count("http_refused_total", reason="token")
        return web.json_response(
            {"error": "a token is needed: Authorization: Bearer TOKEN"},
            status=401, headers={hdrs.WWW_AUTHENTICATE: 'Bearer realm="detector"'},
        )  # fmt: skip
    if not visitor.may(needs):
        metrics.count("http_refused_total", reason="role")
        text = f"{visitor.name} has the role {visitor.role}; this needs {needs}"
        return web.json_response({"error": text}, status=403)
    request[VISITOR] = visitor
    return None


def _visitor(header: str, settings: HttpSettings) -> Visitor | None:
    """Whose token that is. All are compared, so that the time tells nothing of which one is near."""
    found = None
    holders: list[tuple[WithSecrets, Visitor]] = [
        (one, Visitor(one.name, one.role)) for one in settings.tokens
    ]
    if settings.token is not None or settings.token_file is not None:
        holders.insert(0, (settings, Visitor("token", "admin")))
    for holder, visitor in holders:
        try:
            expected = holder.secret("token")
        except ConnectorError as error:
            log.error("%s", error, extra={"repeat": f"http token {visitor.name}"})
            continue
        if expected is not None and _token_matches(header, expected):
            found = found or visitor
    return found


def _token_matches(header: str, expected: str) -> bool:
    scheme, _, given = header.partition(" ")
    # Compared in constant time, so that a token cannot be guessed letter by letter.
    right = hmac.compare_digest(given.strip().encode(errors="replace"), expected.encode())
    return right and scheme.capitalize() in SCHEMES


def _same_origin(request: web.Request) -> bool:
    """Browsers name the page a request comes from; other programs send no Origin."""
    origin = request.headers.get(hdrs.ORIGIN)
    return origin is None or urlsplit(origin).netloc == request.headers.get(hdrs.HOST, "")


def _expected_host(request: web.Request, settings: HttpSettings) -> bool:
    """On loopback without token, only loopback names: a page cannot point its own name at us (rebinding)."""
    if not settings.loopback or settings.authenticated:
        return True
    host = urlsplit("//" + request.headers.get(hdrs.HOST, "")).hostname
    if host is None or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
