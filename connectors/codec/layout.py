"""How a table is written, found from its first rows: which column is the time, which are nodes, how numbers
and times are spelt.

A **long** table has one sample a row: a column with the node, one or more with values. A **wide** table has
one time a row: a column per node, or per node and component (`pump-1.temperature`, `pump-1_temperature`).
Typed tables (Parquet, JSON objects) and text (CSV) differ only in the types of their cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

from connectors.base import Expected
from connectors.codec.decoder import Decode
from connectors.codec.paths import Rejected, TimeFormat, node_fields, parse_path, parse_time, path_of

TIME_NAMES = ("time", "timestamp", "datetime", "date_time", "ts", "t", "_time", "date", "zeit", "zeitstempel",
              "datum", "utc", "epoch", "unix_time", "unixtime", "event_time", "ds")  # fmt: skip
NODE_NAMES = ("node", "sensor", "device", "host", "instance", "station", "mote", "machine", "unit", "asset",
              "node_id", "sensor_id", "device_id", "station_id", "unique_id", "nodeid", "sensorid",
              "deviceid", "series", "series_id", "id", "tag", "name")  # fmt: skip
QUANTITY_NAMES = ("metric", "variable", "component", "quantity", "parameter", "field", "signal", "channel")
VALUE_NAMES = ("value", "values", "reading", "_value", "y")
INDEX = "__index_level_"  # columns in which pandas keeps an index without a name: times, or row numbers
SEPARATORS = (".", ":", "/", "_")  # between node and component
_DAYS = ("%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = (" %H:%M:%S", " %H:%M", " %H:%M:%S.%f", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", "")
PATTERNS = tuple(day + clock for day in _DAYS for clock in _CLOCKS)
_UNITS: tuple[tuple[float, TimeFormat], ...] = (
    (1e17, "unix_ns"), (1e14, "unix_us"), (1e11, "unix_ms"), (0.0, "unix"),
)  # fmt: skip
_COMMA = re.compile(r"[-+]?[0-9]{1,3}(?:[.\u00a0 ]?[0-9]{3})*,[0-9]+")
_POINT = re.compile(r"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?")


class Layout(NamedTuple):
    """How a table is written: ``decode`` reads it, the rest is what people are told."""

    decode: Decode
    header: list[str]
    nodes: list[str] | None  # of a wide table; those of a long one are known once it is read
    components: list[str]  # names, if there are several
    unused: list[str]  # columns that are no numbers, or belong to no node

    @property
    def is_wide(self) -> bool:
        return self.nodes is not None


def find_layout(
    header: Sequence[str], rows: Sequence[Mapping[str, Any]], given: Decode, expected: Expected
) -> Layout:
    """From the first rows; what ``given`` says is not looked for. ValueError names column and value."""
    time = str(parse_path(given.time)[0]) if given.time else _time_column(header, rows, given.time_format)
    if time not in header:
        raise ValueError(f"there is no column {time!r} (columns: {listed(header)})")
    node = given.node or (None if given.node_constant or given.nodes else _node_column(header, rows, time))
    found: dict[str, Any] = {
        "time": given.time or path_of(time),
        "time_format": given.time_format or time_format_of(time, rows),
        "node": node,
    }
    taken = {time, *(node_fields(node) if node else ())}
    taken |= {name for name in header if name.startswith(INDEX)}
    numeric = [name for name in header if name not in taken and _is_numeric(name, rows)]
    unused = [name for name in header if name not in taken and name not in numeric]
    if node is not None or given.node_constant is not None:
        values = _as_list(given.values) or _value_columns(numeric)
        if not values:
            raise ValueError(f"no column holds numbers (columns: {listed(header)})")
        unused += [name for name in numeric if name not in values]
        found["values"] = given.values or [path_of(name) for name in values]
        names = values if len(values) > 1 else []
        return Layout(given.model_copy(update=found), list(header), None, names, unused)
    columns = given.nodes or wide_columns(numeric, expected)
    if not columns:
        raise ValueError(_no_columns(numeric, expected))
    used = {field for fields in columns.values() for field in fields}
    unused += [name for name in numeric if name not in used]
    found["nodes"] = columns
    layout = given.model_copy(update=found)
    return Layout(layout, list(header), list(columns), _components(columns), unused)


def listed(names: Sequence[str], most: int = 8) -> str:
    """A few names, and how many more."""
    shown = ", ".join(name[:40] for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


# ------------------------------------------------------------------------------------------------ columns


def named(header: Sequence[str], names: Sequence[str]) -> str | None:
    plain = {column.strip().casefold().replace(" ", "_"): column for column in reversed(header)}
    return next((plain[name] for name in names if name in plain), None)


def _time_column(header: Sequence[str], rows: Sequence[Mapping[str, Any]], form: TimeFormat | None) -> str:
    usual = named(header, TIME_NAMES)
    if usual is not None:
        return usual
    alike = [name for name in header if re.search(r"time|date", name, re.IGNORECASE)]
    index = [name for name in header if name.startswith(INDEX)]
    for name in [*alike, *index, *header[:1]]:
        try:
            time_format_of(name, rows, form)
        except ValueError:
            continue
        if name in alike or _rises(name, rows):
            return name
    raise ValueError(f"no column is a time (columns: {listed(header)}); say which one: decode.time")


def _rises(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """A first column of times that do not fall, and not of equal numbers: values are not that orderly."""
    cells = [row[name] for row in rows if row.get(name) is not None]
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    if len(numbers) < len(cells):
        return bool(cells) and not numbers  # texts that are times
    return len(numbers) > 2 and all(a < b for a, b in pairwise(numbers))


def _node_column(header: Sequence[str], rows: Sequence[Mapping[str, Any]], time: str) -> str | None:
    """The column (or the template of two) that tells whose values a row holds; None: a wide table."""
    rest = [name for name in header if name != time]
    sure = [name for name in rest if name.strip().casefold() in NODE_NAMES[:1]]
    text = [name for name in rest if not _is_numeric(name, rows)]
    node = sure[0] if sure else named(text, NODE_NAMES)
    by_id = named(rest, [name for name in NODE_NAMES if name.endswith("id")])
    if node is None and by_id is not None and _repeats(by_id, rows):
        node = by_id  # a number that comes again and again
    quantity = named([name for name in text if name != node], QUANTITY_NAMES)
    if quantity is not None and named(rest, VALUE_NAMES) is not None:
        return path_of(quantity) if node is None else f"{{{path_of(node)}}}.{{{path_of(quantity)}}}"
    return None if node is None else path_of(node)


def _repeats(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    cells = [row.get(name) for row in rows]
    return len(cells) > len(set(cells)) > 1


def _value_columns(numeric: list[str]) -> list[str]:
    value = named(numeric, VALUE_NAMES)
    return [value] if value is not None and len(numeric) == 1 else numeric


def _is_numeric(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Numbers or gaps; of a hundred cells a few may be garbage, which is refused when it is read."""
    cells = [row.get(name) for row in rows]
    there = [cell for cell in cells if cell is not None]
    bad = [cell for cell in there if not _is_number(cell)]
    return len(bad) <= len(there) // 20 + (len(there) > 2)


def _is_number(cell: Any) -> bool:
    if isinstance(cell, list):
        return all(one is None or _is_number(one) for one in cell)
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _as_list(values: str | list[str] | None) -> list[str]:
    return [values] if isinstance(values, str) else list(values or ())


def wide_columns(columns: Sequence[str], expected: Expected) -> dict[str, list[str]]:
    """For each node the columns of its components, in their order."""
    if not columns:
        return {}
    if expected.nodes is None:
        grouped = None if expected.dim == 1 else _grouped(columns, expected)
        return grouped or ({name: [name] for name in columns} if expected.dim in (None, 1) else {})
    there = set(columns)
    if expected.dim in (None, 1) and any(name in there for name in expected.nodes):
        return {name: [name] for name in expected.nodes if name in there}
    for separator in SEPARATORS:
        parts = expected.components
        if not parts:
            inner = (name.rpartition(separator) for name in columns if separator in name)
            parts = list(dict.fromkeys(part for node, _, part in inner if node in set(expected.nodes)))
        if not parts or len(parts) != (expected.dim or len(parts)):
            continue
        found = {name: [f"{name}{separator}{part}" for part in parts] for name in expected.nodes}
        whole = {name: fields for name, fields in found.items() if there.issuperset(fields)}
        if whole:
            return whole
    return {}


def _grouped(columns: Sequence[str], expected: Expected) -> dict[str, list[str]] | None:
    """Columns that are node and component throughout, every node with the same components."""
    for separator in SEPARATORS:
        if not all(separator in name.strip(separator) for name in columns):
            continue
        nodes: dict[str, list[str]] = {}
        for name in columns:
            nodes.setdefault(name.rpartition(separator)[0], []).append(name.rpartition(separator)[2])
        parts = next(iter(nodes.values()))
        same = all(sorted(found) == sorted(parts) for found in nodes.values())
        numbered = all(part.isdigit() for part in parts)  # hall.1, hall.2: two nodes
        wanted = len(parts) > 1 and len(nodes) > 1 and not numbered
        if same and (wanted or (expected.dim is not None and len(parts) == expected.dim)):
            parts = list(expected.components or parts)
            return {node: [f"{node}{separator}{part}" for part in parts] for node in nodes}
    return None


def _components(columns: Mapping[str, Sequence[str]]) -> list[str]:
    node, fields = next(iter(columns.items()))
    return (
        [field.removeprefix(node).lstrip("".join(SEPARATORS)) for field in fields] if len(fields) > 1 else []
    )


def _no_columns(numeric: Sequence[str], expected: Expected) -> str:
    if not numeric:
        return "no column holds numbers"
    wanted = repr(expected.nodes[0]) if expected.nodes else "a node"
    count = expected.dim or 1
    return f"no column for {wanted} with {count} component{'s'[: count != 1]}; columns: {listed(numeric)}"


# ------------------------------------------------------------------------------------------------ spelling


def time_format_of(
    name: str, rows: Sequence[Mapping[str, Any]], known: TimeFormat | None = None
) -> TimeFormat | None:
    """How the times of a column are written; ValueError if they are none, or not of the ``known`` form."""
    cells = [row[name] for row in rows if row.get(name) is not None]
    if not cells or any(isinstance(cell, date) for cell in cells):
        return None
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) <= len(cells) // 2:
        numbers = [abs(float(cell)) for cell in cells if _is_number(cell) and not isinstance(cell, list)]
        if not numbers:
            raise ValueError(f"column {name!r}: {cells[0]!r} is no time")
        size = sorted(numbers)[len(numbers) // 2]
        # Seconds until the year 5138; what is larger counts smaller units.
        return next(unit for least, unit in _UNITS if size >= least)
    fits = [form for form in ([known] if known else ("iso8601", *PATTERNS)) if _fit(texts, form)]
    if not fits:
        raise ValueError(
            f"column {name!r}: {texts[0]!r} is no time that is understood; give its time_format, such as "
            "'%d.%m.%Y %H:%M'"
        )
    if len(fits) > 1 and fits[0] != "iso8601":
        one, other = (form.split()[0] for form in fits[:2])
        raise ValueError(
            f"column {name!r}: {texts[0]!r} may be {one} or {other}; give its time_format, such as "
            f"{fits[0]!r}"
        )
    return fits[0]


def _fit(texts: Sequence[str], form: TimeFormat) -> bool:
    """All but a few, which are refused when they are read."""
    bad = 0
    for text in texts:
        try:
            parse_time(text, form)
        except Rejected:
            bad += 1
            if bad > len(texts) // 20 + (len(texts) > 2):
                return False
    return True


def find_delimiter(line: str) -> str:
    """The mark that cuts the first line into most columns."""
    return max(",;\t|", key=line.count)


def find_decimal(cells: Sequence[str], delimiter: str) -> str:
    """A comma, if numbers are written with one and none with a point."""
    if delimiter == ",":
        # Quoted cells may hold one all the same.
        return "."
    commas = sum(_COMMA.fullmatch(cell.strip()) is not None for cell in cells)
    points = sum(_POINT.fullmatch(cell.strip()) is not None for cell in cells)
    return "," if commas > points else "."
