"""Requests in and answers out, the same for all handlers: JSON, errors, bodies checked by a struct."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
import numpy as np
from aiohttp import web

from detector.http.service import SERVICE

Struct = TypeVar("Struct", bound=msgspec.Struct)


class Problem(Exception):
    """Ends a request with a status and a reason; the guard of all requests answers it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def answer(content: Any, status: int = 200) -> web.Response:
    body = msgspec.json.encode(content, enc_hook=_plain)
    return web.Response(body=body, status=status, content_type="application/json")


def error(status: int, text: str) -> web.Response:
    return answer({"error": text}, status)


async def read_body(request: web.Request) -> bytes:
    """The whole body; Problem if it takes too long."""
    try:
        async with asyncio.timeout(request.app[SERVICE].settings.body_timeout):
            return await request.read()
    except TimeoutError:
        raise Problem(408, "the body took too long") from None


async def parse_body(request: web.Request, form: type[Struct]) -> Struct:
    """The body by its struct; Problem says what is wrong with it."""
    body = await read_body(request)
    try:
        return msgspec.json.decode(body or b"{}", type=form)
    except (msgspec.MsgspecError, RecursionError, ValueError) as failure:
        raise Problem(400, str(failure)) from None


def parse_query(request: web.Request, form: type[Struct]) -> Struct:
    """The query by its struct; Problem says what is wrong with it."""
    try:
        return msgspec.convert(dict(request.query), form, strict=False)
    except msgspec.ValidationError as failure:
        raise Problem(400, str(failure)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} is not JSON")
