"""Overlay: pure knowledge of the graph the brokers form: trees, paths, neighbourhoods, cells."""

from __future__ import annotations

from gapless.overlay.cells import Cell, CellTree
from gapless.overlay.flaws import Flaw, FlawKind, TreeError, flaws_of
from gapless.overlay.tree import Tree

__all__ = ["Cell", "CellTree", "Flaw", "FlawKind", "Tree", "TreeError", "flaws_of"]
