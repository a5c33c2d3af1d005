"""Amounts in arguments: how long, how many, how often. What means nothing is refused before anything is done."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def amount(unit: str, least: float = 0.0) -> Callable[[str], float]:
    """The type of an argument that is a number of these units: more than 0, or as much as `least`."""
    bound = f"{least:g} or more" if least else "more than 0"

    def amount_of(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value <= 0 or value < least:
            raise argparse.ArgumentTypeError(f"{text!r} will not do: give {unit}, {bound}")
        return value

    return amount_of


def count(text: str) -> int:
    """The type of an argument that is a whole number of things, at least one."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} will not do: give a whole number, 1 or more")
    return value


seconds = amount("seconds")
