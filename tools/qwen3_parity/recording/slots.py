"""The slots that one call of a model covers."""

from __future__ import annotations

from typing import NamedTuple


class Forward(NamedTuple):
    """One call of a model: its rows are the slots `first` to `stop`; those before `new` were recorded before."""

    first: int
    new: int
    stop: int
