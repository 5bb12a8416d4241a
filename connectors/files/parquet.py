"""Rows of a Parquet file, a batch at a time; needs pyarrow (extra `parquet`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from connectors.base import MissingLibrary, Unreadable

ROWS = 4096  # of one batch


def _opened(path: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingLibrary("parquet") from None
    try:
        return ParquetFile(path)
    except (ArrowException, ValueError) as error:
        raise Unreadable(f"{path}: not a Parquet file that can be read: {error}") from None


def first_rows(path: Path, count: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Names of the columns, and the first rows."""
    file = _opened(path)
    with file:
        for batch in file.iter_batches(batch_size=count):
            return file.schema_arrow.names, _rows(batch)
        return file.schema_arrow.names, []


def count_rows(path: Path) -> int:
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def rows_from(path: Path, first: int) -> Iterator[list[dict[str, Any]]]:
    """Batches of rows from number ``first`` on; whole row groups before it are not read."""
    with _opened(path) as file:
        groups: list[int] = []
        skipped = 0
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if not groups and skipped + size <= first:
                skipped += size
            else:
                groups.append(group)
        cut = first - skipped
        if not groups:
            return
        for batch in file.iter_batches(batch_size=ROWS, row_groups=groups):
            if cut >= batch.num_rows:
                cut -= batch.num_rows
                continue
            yield _rows(batch.slice(cut))
            cut = 0


def _rows(batch: Any) -> list[dict[str, Any]]:
    """As Python objects: times to the microsecond, decimals as floats, dictionaries as their words."""
    import pyarrow as pa

    columns, names = [], batch.schema.names
    for column in batch.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif pa.types.is_timestamp(kind) and kind.unit == "ns":
            column = column.cast(pa.timestamp("us", tz=kind.tz), safe=False)
        elif pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        columns.append(column.to_pylist())
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
