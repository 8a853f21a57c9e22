"""Where tables go: a terminal as wide as it is, a pipe or a log as wide as the names of taps need."""

from __future__ import annotations

import sys

from rich.console import Console

_WIDTH_OF_A_LOG = 160


def console() -> Console:
    """Standard output for tables, which are never cut where nobody sees an edge."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_LOG, soft_wrap=False)
