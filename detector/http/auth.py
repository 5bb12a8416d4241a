"""Who may ask: whoever shows the token, and no web page of another site in the name of its visitor."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from connectors.base import ConnectorError
from detector.runtime.metrics import Metrics
from detector.settings.service import HttpSettings

log = logging.getLogger("detector.http")
SCHEMES = ("Bearer", "Token")  # the second is what Telegraf's InfluxDB v2 output sends


def refusal(
    request: web.Request, settings: HttpSettings, metrics: Metrics, *, needs_token: bool
) -> web.Response | None:
    """The answer for a request that is not to be worked on, or None."""
    if not _same_origin(request) or not _expected_host(request, settings):
        metrics.count("http_refused_total", reason="origin")
        return web.json_response({"error": "requests of other sites are not answered"}, status=403)
    if not needs_token or not (settings.token is not None or settings.token_file is not None):
        return None
    try:
        expected = settings.secret("token")
    except ConnectorError as error:
        log.error("%s", error, extra={"repeat": "http token"})
        expected = None
    if expected is not None and _token_matches(request.headers.get(hdrs.AUTHORIZATION, ""), expected):
        return None
    metrics.count("http_refused_total", reason="token")
    return web.json_response(
        {"error": "a token is needed: Authorization: Bearer TOKEN"},
        status=401, headers={hdrs.WWW_AUTHENTICATE: 'Bearer realm="detector"'},
    )  # fmt: skip


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
