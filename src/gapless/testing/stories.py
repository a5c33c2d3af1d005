"""Stories: where they wait when they do not end, and how what is left of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import CoroutineType
from typing import Any


def where(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Where the application waits: of each task the innermost line that is neither ours nor the library's."""
    lines = []
    for task in tasks:
        at = ""
        inner: object = task.get_coro()
        while isinstance(inner, CoroutineType):
            frame = inner.cr_frame
            if frame is not None and not frame.f_globals.get("__name__", "").startswith(("gapless.", "asyncio.")):
                at = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"
            inner = inner.cr_await
        if at:
            lines.append(f"{task.get_name()} at {at}")
    return f"it waits: {'; '.join(lines)}" if lines else "nothing of it waits"


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel them and wait until they have ended, as `asyncio.run` does at its end."""
    cancelled = [task for task in tasks if task is not asyncio.current_task()]
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
    for task in cancelled:
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "a task failed at the end", "exception": error})
