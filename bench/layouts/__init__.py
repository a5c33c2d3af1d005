"""Layouts of a batch side by side: ours, Arrow's, and what programs otherwise send. `python -m bench.layouts`."""
