"""A broker of thirty lines, for tests of the harness: `echo_server.py PORT N` drops every Nth message (0: none)."""

from __future__ import annotations

import asyncio
import sys

PUBLISHER, SUBSCRIBER = b"P", b"S"


async def main(port: int, dropped: int) -> None:
    """Pass every message of publishers on to all subscribers."""
    subscribers: list[asyncio.StreamWriter] = []
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        kind = await reader.read(1)
        if kind == SUBSCRIBER:
            subscribers.append(writer)
            writer.write(b"!")
        while kind == PUBLISHER:
            try:
                head = await reader.readexactly(4)
                frame = head + await reader.readexactly(int.from_bytes(head, "big"))
            except asyncio.IncompleteReadError:
                break
            count += 1
            for subscriber in subscribers if not dropped or count % dropped else ():
                subscriber.write(frame)
                await subscriber.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
