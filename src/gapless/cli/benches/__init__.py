"""What `gapless bench` measures, and how. The rules are in docs/performance.md."""
