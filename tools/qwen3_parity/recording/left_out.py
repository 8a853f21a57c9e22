"""What a model has in a form of its own, or inside of what is compiled: left out of a recording, and said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from qwen3_golden import ParityError
from qwen3_parity.recording.compiled import plain_module


class LeftOut(UserWarning):
    """Taps that a model has in a form of its own, so that they are neither recorded nor declared."""


def in_words(left_out: Iterable[ParityError]) -> LeftOut:
    """The warning of all that was left out, each sentence once."""
    return LeftOut("\n".join(dict.fromkeys(str(said) for said in left_out)))


def inside_compiled(model: nn.Module, compiled: Sequence[str], patterns: Sequence[str]) -> dict[str, ParityError]:
    """What is said of taps whose modules are inside of those at the paths `compiled`."""
    said = ParityError(
        type(plain_module(model)).__name__,
        "it is compiled, and no hook can stand inside of what is compiled, so these taps are left out",
        expected="modules that are compiled themselves, whole, or not at all",
        got=f"torch.compile of {listed(compiled)}",
        next_step="go on with what is there; for the others record the model before it is compiled",
    )
    return dict.fromkeys(patterns, said)


def listed(paths: Sequence[str]) -> str:
    """Paths of modules in a message, the first three by name."""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(path or "the model" for path in paths[:3]) + more
