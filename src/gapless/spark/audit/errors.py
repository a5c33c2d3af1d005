"""What an audit cannot work on."""

from __future__ import annotations

from gapless.model.errors import GaplessError


class JournalError(GaplessError):
    """Journals that are missing, cannot be read, or are not what the history schema says."""
