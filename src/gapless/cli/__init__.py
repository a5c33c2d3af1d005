"""The gapless command."""
