"""What is taken from a graph of a file from anywhere: plain names, and one sentence for everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from qwen3_golden import ParityError

AGAIN = "copy the golden again, or capture it again"
_LONGEST = 300
_SHOWN = 240

Refuse = Callable[[str, object, object], ParityError]
"""`refuse(rule, expected, got)`: the error of a graph that cannot be."""


def refusal_of(where: object) -> Refuse:
    """The refusal of the graph of a file."""

    def refuse(rule: str, expected: object, got: object) -> ParityError:
        return refused(where, rule, expected, got, AGAIN)

    return refuse


def refused(where: object, rule: str, expected: object, got: object, next_step: str) -> ParityError:
    """The error of a graph that cannot be, with another next step."""
    rule = f"the graph cannot be used: {rule}"
    return ParityError(where, rule, expected=expected, got=shown(got), next_step=next_step)


def is_plain(name: str) -> bool:
    """Whether a name of a graph is one: printable, of some length, with nothing in it that leads to another folder."""
    return 0 < len(name) <= _LONGEST and name.isprintable() and not set(name) & set("/\\") and ".." not in name


def check_names(names: Sequence[str], kind: str, refuse: Refuse) -> None:
    """Raise `ParityError` for a name that is not plain."""
    for name in names:
        if not is_plain(name):
            raise refuse(f"{kind} has a name that is not plain", "printable, without '/', '\\' and '..'", name)


def check_once(names: Sequence[str], kind: str, refuse: Refuse) -> None:
    """Raise `ParityError` for a name that stands there twice."""
    if double := next((name for name, count in Counter(names).items() if count > 1), None):
        raise refuse(f"{kind} stands there twice", "each name once", double)


def shown(value: object) -> str:
    """Something out of a file in a sentence: its beginning, without what a terminal would obey."""
    text = str(value)
    return ascii(text[:_SHOWN])[1:-1] + ("…" if len(text) > _SHOWN else "")
