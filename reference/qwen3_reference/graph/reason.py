"""Another library's reason in our one sentence."""

from __future__ import annotations

_SHOWN = 200


def short(error: BaseException) -> str:
    """An error's own words on one line, cut; "no reason" where it has none."""
    line = " ".join(str(error).split()) or "no reason"
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
