"""What people say about an incident: the one definition of a label.

The body of `POST …/label`, its description in OpenAPI, the options of `detector incidents label`, the form of
the status page, the check in the tracker and the labels kept in records all come from the fields of `Label`:
their types and limits, ``title`` as the question of a form, ``description`` as help. ``option`` names the
option of the command line where it is not the field; ``x-words`` puts the choices of a field into words.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Alarm = Literal["true", "false"]
Text = Annotated[str, Meta(min_length=1, max_length=2000)]
Names = Annotated[list[Text], Meta(max_length=10_000)]


class Label(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people say about an incident; at least one field."""

    alarm: Annotated[
        Alarm | None,
        Meta(
            title="Was there really an event?",
            description="`true`: a real event; `false`: a false alarm",
            extra_json_schema={"x-words": {"true": "yes, a real event", "false": "no, a false alarm"}},
        ),
    ] = None
    type: Annotated[
        Text | None, Meta(title="Type of event", description="type of event, in the site's own words")
    ] = None
    nodes: Annotated[
        Names | None,
        Meta(
            title="Nodes really affected",
            description="nodes confirmed to be affected",
            extra={"option": "node"},
        ),
    ] = None
    note: Annotated[
        Text | None,
        Meta(title="Note", description="free text", extra_json_schema={"x-long": True}),
    ] = None

    def given(self) -> dict[str, Any]:
        """What was said, by field."""
        said = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in said.items() if value is not None}


FIELDS: tuple[str, ...] = Label.__struct_fields__


def parse_label(said: dict[str, Any]) -> Label:
    """A label from values that came from outside; ValueError says what is wrong with them."""
    label = msgspec.convert(said, Label)
    if not label.given():
        raise ValueError(f"say at least one of {', '.join(FIELDS)}")
    return label
