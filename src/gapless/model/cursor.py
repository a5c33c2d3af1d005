"""Cursors: where a subscription stands, as a text that an application keeps and does not look into."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from gapless.model.errors import CursorError

CURSOR_VERSION: Final = 1
_PREFIX: Final = "gapless-cursor-"
_CHECK_BYTES: Final = 4


class Cursor(NamedTuple):
    """A place after a publication, in one space of one cluster. Keep the `str` of it; `parse` brings it back."""

    cluster: str
    space: str
    position: bytes  # what the delivery of the space says it is

    def __str__(self) -> str:
        packed = msgspec.msgpack.encode(tuple(self))
        packed += crc32(packed).to_bytes(_CHECK_BYTES, "little")
        return f"{_PREFIX}{CURSOR_VERSION}.{urlsafe_b64encode(packed).decode()}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor that was kept as this text. Raises CursorError."""
        version, dot, packed = text.removeprefix(_PREFIX).partition(".")
        if not text.startswith(_PREFIX) or not dot:
            raise CursorError(f"{text[:40]!r} is no cursor: give it the whole text that a cursor was kept as")
        if version != str(CURSOR_VERSION):
            raise CursorError(
                f"a cursor of version {version[:20]}, and this program reads version {CURSOR_VERSION}: "
                "go on with the program that made it, or start anew"
            )
        try:
            data = urlsafe_b64decode(packed.encode())[:-_CHECK_BYTES]
            cursor = cls(*msgspec.msgpack.decode(data, type=tuple[str, str, bytes]))
        except (NotBase64, UnicodeError, msgspec.DecodeError):
            raise _changed() from None
        if str(cursor) != text:
            raise _changed()
        return cursor

    def check(self, cluster: str, space: str) -> None:
        """Raise CursorError unless it was made in this space of this cluster."""
        if (self.cluster, self.space) != (cluster, space):
            raise CursorError(
                f"a cursor of space {self.space!r} in cluster {self.cluster!r} means nothing in space {space!r} of "
                f"cluster {cluster!r}: use it where it was made, or start anew"
            )


def _changed() -> CursorError:
    return CursorError("a cursor that is not whole any more: it was cut or changed where it was kept")
