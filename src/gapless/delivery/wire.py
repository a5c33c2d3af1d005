"""Messages as bytes: a short msgpack array, and the bytes of a batch behind it, untouched.

u32 length of the head | head | batch
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from gapless.delivery.port import Message
from gapless.model.batch import Batch, Bytes
from gapless.model.errors import WireError

_HEAD = struct.Struct("<I")


def _no_batch(value: object) -> object:
    if isinstance(value, Batch):
        return None
    raise TypeError(f"a message cannot carry {type(value).__name__}")


class Codec:
    """The bytes of one family of messages, and back."""

    def __init__(self, family: Any) -> None:
        """`family` is the union of a delivery's messages."""
        self._encode = msgspec.msgpack.Encoder(enc_hook=_no_batch).encode
        self._payload: Bytes = b""
        self._decode = msgspec.msgpack.Decoder(family, dec_hook=self._batch).decode

    def encode(self, message: Message) -> list[Bytes]:
        """The pieces of a message, to be written one after the other."""
        head = self._encode(message)
        batch: Batch | None = getattr(message, "batch", None)
        if batch is None:
            return [_HEAD.pack(len(head)) + head]
        fixed, rest = batch.buffers()
        return [_HEAD.pack(len(head)) + head + fixed, rest]

    def decode(self, data: memoryview) -> Message:
        """The message in these bytes, which a batch goes on using; raises WireError."""
        if len(data) < _HEAD.size:
            raise WireError(f"a message of {len(data)} bytes is too short to be one")
        (length,) = _HEAD.unpack_from(data)
        end = _HEAD.size + length
        if end > len(data):
            raise WireError(f"a message of {len(data)} bytes cannot have a head of {length}")
        self._payload = data[end:]
        try:
            message: Message = self._decode(data[_HEAD.size : end])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(f"a message cannot be read: {error}") from None
        finally:
            self._payload = b""
        return message

    def _batch(self, kind: type, value: object) -> object:
        if kind is not Batch or value is not None:
            raise WireError("a message carries something that is not a batch")
        return Batch(self._payload)
