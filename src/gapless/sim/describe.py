"""Messages as a reader of traces wants to see them."""

from __future__ import annotations

from gapless.delivery.port import Message
from gapless.delivery.selection import size_of
from gapless.model.batch import Batch, Rows


def described(message: Message) -> str:
    """One line: the name of the message, and what it says."""
    words = [str(type(message).__struct_config__.tag)]
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, Batch):
            words.append(range_of(value))
        elif isinstance(value, bool):
            words.extend([name] * value)
        elif value not in ("", ()):
            words.append(_told(value, message))
    return " ".join(words)


def range_of(batch: Batch, rows: Rows | None = None) -> str:
    """The publications by source and seq."""
    seqs = (batch.seqs if rows is None else batch.seqs[rows]).tolist()
    if len(seqs) == 1:
        return f"{batch.source}:{seqs[0]}"
    if seqs[-1] - seqs[0] == len(seqs) - 1:
        return f"{batch.source}:{seqs[0]}-{seqs[-1]}"
    return f"{batch.source}:{','.join(map(str, seqs))}"


def _told(value: object, message: Message) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join([_told(one, message) for one in value]) + ")"
    if isinstance(value, bytes):
        return f"{size_of(value, message.batch.rows)} rows" if value else "all"  # type: ignore[attr-defined]  # bytes in messages select rows of their batch
    return str(value)
