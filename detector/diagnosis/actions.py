"""What people can have an analyzer do: train, show, enrol, forget and the like.

An action is a function of the repository and of arguments, which are a struct: the same struct checks what
comes over HTTP, describes it in OpenAPI and makes the options of the command line. ``bytes`` travel as
base64; on the command line they are files. An error about them begins with the field, or field and number
("message 2"): the command line puts the name of the file there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from detector.diagnosis.repository import Repository


class ActionError(ValueError):
    """The action makes no sense as asked: unknown name, too few labels, a file that cannot be read."""


class NotThere(ActionError):
    """An incident, case file or model of that name does not exist."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of all arguments, and those of an action that needs none."""


@dataclass(frozen=True)
class Action:
    """``run`` may take long; it runs in the diagnosis thread, or in the command if there is no daemon."""

    help: str  # one sentence
    run: Callable[[Repository, Any], dict[str, Any]]  # the result is JSON-ready, but may hold bytes
    arguments: type[Arguments] = Arguments
    file: bool = False  # the result holds bytes under "file"; the command line writes them to one


def parse(action: Action, body: bytes) -> Arguments:
    """The arguments from JSON; ActionError says what is wrong with them."""
    try:
        return msgspec.json.decode(body or b"{}", type=action.arguments)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ActionError(str(error)) from None
