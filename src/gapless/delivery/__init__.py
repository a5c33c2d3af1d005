"""Protocols as pure state machines: what a core is, what it says to other cores, and the cores themselves."""
