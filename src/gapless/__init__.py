"""Gapless: publish once; delivered once, in order, with no gaps, while brokers and links fail."""

from __future__ import annotations

__version__ = "0.1.0"
