"""The schema of a history as columns: for Spark, and for journals in Parquet.

It is taken from `Event`, field by field, and never inferred from journals: there a field that no event happens to have
would be missing. Attributes differ from event to event, so they are one column: the text of their JSON object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.model.events import Event, Kind


@dataclass(frozen=True)
class FieldType:
    """The type of a field, as Spark and as Arrow name it, and what an absent one stands for."""

    ddl: str
    arrow: pa.DataType
    default: str | int | bool | None = None

    def accepts(self, arrow: pa.DataType) -> bool:
        """Whether a Parquet column of that type can be read as this one."""
        if pa.types.is_dictionary(arrow):
            return self.accepts(arrow.value_type)
        if self.arrow == pa.string():
            return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))
        if pa.types.is_nested(self.arrow):
            return bool(pa.types.is_nested(arrow))
        return bool(arrow == self.arrow)


_JSON = FieldType("string", pa.string())
_BY_TYPE: dict[Any, FieldType] = {
    Kind: FieldType("string", pa.string()),
    str: FieldType("string", pa.string()),
    int: FieldType("bigint", pa.int64()),
    bool: FieldType("boolean", pa.bool_()),
    tuple[str, ...]: FieldType("array<string>", pa.list_(pa.string())),
    dict[str, int] | None: FieldType("map<string,bigint>", pa.map_(pa.string(), pa.int64())),
    dict[str, str] | None: FieldType("map<string,string>", pa.map_(pa.string(), pa.string())),
}


def _field_types() -> dict[str, FieldType]:
    hints = get_type_hints(Event)
    types = {}
    for field in msgspec.structs.fields(Event):
        plain = _JSON if field.name == "attributes" else _BY_TYPE[hints[field.name]]
        default = field.default if isinstance(field.default, str | int | bool) else None
        types[field.name] = FieldType(plain.ddl, plain.arrow, default)
    return types


FIELDS = _field_types()
"""The type of each field of an event, in the order of the schema."""

REQUIRED = tuple(field.name for field in msgspec.structs.fields(Event) if field.required)


def event_ddl() -> str:
    """The schema of an event as Spark's DDL says it."""
    return ", ".join(f"`{name}` {field.ddl}" for name, field in FIELDS.items())


def arrow_schema() -> pa.Schema:
    """The schema of a journal in Parquet."""
    return pa.schema([pa.field(name, field.arrow) for name, field in FIELDS.items()])


def write_parquet(path: Path, events: Iterable[Event], rows_at_once: int = 50_000) -> None:
    """Write a journal as Parquet, in the order of `events`."""
    schema = arrow_schema()
    with pq.ParquetWriter(path, schema) as writer:
        rows: list[dict[str, Any]] = []
        for event in events:
            rows.append(_row(event))
            if len(rows) == rows_at_once:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, schema))


def _row(event: Event) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(event)
    if event.attributes is not None:
        row["attributes"] = msgspec.json.encode(event.attributes).decode()
    return row
