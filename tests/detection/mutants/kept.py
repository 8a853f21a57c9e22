"""Which seeded bugs stay, and which are to be replaced by seeds derived from the library of mistakes: `kept.txt`."""

from __future__ import annotations

from pathlib import Path

from detection.reasons import Reason, reasons

KEPT = Path(__file__).with_name("kept.txt")
STAYS, REPLACED = "stays", "replaced"


def kept(path: Path = KEPT) -> dict[str, Reason]:
    """By the name of a mutant: `STAYS`, because it needs the real model or tokenizer, or `REPLACED` by the ops named.

    Raises `ParityError` for a line that cannot be read, or a name that stands there twice.
    """
    return reasons(path, (STAYS, REPLACED))
