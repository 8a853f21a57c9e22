"""A mistake of a port, as a family's file in `rows` has it: what is written otherwise, who is wrong, what to say.

    == first LlamaRMSNorm.forward @ model.norm model.layers.*norm
    - variance = hidden_states.pow(2).mean(-1, keepdim=True)
    + variance = hidden_states.pow(2).sum(-1, keepdim=True)
    ~ \\bsum

The heading names the set, the function (of another module: `transformers.integrations.moe:name`) and the paths of the
modules that are wrong. Below it stand the text as it is and as the port has it, a line or several, and alternatives of
how the mechanism may be told: regular expressions with ` & ` between them, all of which must match; `<1>` and `<2>` are
numbers, in words or by themselves. A line with ! is another that an answer may name: where the graph holds a value that
a constructor made, it is the op that reads it. A line with # says where people reported such a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detection.families.models import FAMILIES
from qwen3_golden import ParityError

SETS = ("first", "held")
_FOLDER = Path(__file__).with_name("rows")
_HEAD = re.compile(r"== (\S+) (?:(\S+):)?(\S+) @ (.+)")
_Alternative = tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class Row:
    """A mistake: `old` stands once in `function` of `module`, `new` in its place; `blame` are globs of module paths,
    `also` other lines that an answer may name.
    """

    name: str
    family: str
    part: str
    module: str
    function: str
    blame: tuple[str, ...]
    old: str
    new: str
    alternatives: tuple[_Alternative, ...]
    also: tuple[str, ...]

    def is_told_by(self, said: str) -> bool:
        """Whether an answer, its name and its text, says the mechanism."""
        return any(all(part.search(said) for part in every) for every in self.alternatives)


@cache
def rows() -> Sequence[Row]:
    """Every row of every family that has a file, in the families' order; raises `ParityError` where one is misread."""
    files = {path.stem: path for path in _FOLDER.glob("*.txt")}
    return [row for family in FAMILIES if (path := files.get(family.partition(".")[0])) for row in _read(family, path)]


def _read(family: str, path: Path) -> Iterator[Row]:
    package = family.partition(".")[0]
    blocks = re.split(r"^(?=== )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for number, block in enumerate(blocks[1:], 1):
        head, *lines = block.splitlines()
        read = _HEAD.fullmatch(head)
        marked = {mark: [line[2:] for line in lines if line.startswith(mark + " ")] for mark in "-+~!"}
        if read is None or read[1] not in SETS or not marked["-"] or not marked["~"]:
            raise ParityError(
                f"{path.name}: row {number}",
                "this is no row",
                expected="== first FUNCTION @ MODULES, and lines that begin with -, + and ~",
                got=head,
                next_step="see detection/ported/row.py",
            )
        yield Row(
            f"{package}-{number:02}",
            family,
            read[1],
            read[2] or f"transformers.models.{package}.modeling_{package}",
            read[3],
            tuple(read[4].split()),
            "\n".join(marked["-"]),
            "\n".join(marked["+"]),
            tuple(_alternative(line) for line in marked["~"]),
            tuple(marked["!"]),
        )


def _alternative(line: str) -> _Alternative:
    return tuple(re.compile(part, re.IGNORECASE) for part in re.sub("<([12])>", _number, line).split(" & "))


def _number(digit: re.Match[str]) -> str:
    word = {"1": "one", "2": "two"}[digit[1]]
    return rf"(\b{word}\b|(?<![.\w]){digit[1]}(\.0+)?(?!\.?\d|\w))"
