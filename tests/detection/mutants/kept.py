"""Which bugs are seeded by hand, and why derived seeds cannot be them: `kept.txt`."""

from __future__ import annotations

from pathlib import Path

from detection.reasons import Reason, reasons

KEPT = Path(__file__).with_name("kept.txt")


def frozen(path: Path = KEPT) -> dict[str, Reason]:
    """By the name of a mutant, why it needs the real model or tokenizer.

    Raises `ParityError` for a line that cannot be read, or a name that stands there twice.
    """
    return reasons(path, ("stays",))
