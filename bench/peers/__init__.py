"""Peers beside us: the same load through other brokers and through Gapless, in one run (docs/performance-peers.md)."""
