"""Gapless without `async`: `gapless.sync.connect(servers)`, for scripts, threads and notebooks."""

from __future__ import annotations

from gapless.client.sync import Bus, Publisher, Receipt, Subscription, connect

__all__ = ["connect", "Bus", "Publisher", "Receipt", "Subscription"]
