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
from functools import cache, cached_property
from pathlib import Path

from detection.draws import Alternative, alternative, says
from detection.families.models import FAMILIES
from detection.ported.substituted import Change
from qwen3_golden import ParityError

SETS = (
    *("first", "held", "fresh", "third", "extra", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    "eleventh",
)
_FOLDER = Path(__file__).with_name("rows")
"""A file of rows for each family that has any, by its package."""
_MARKS = ("- ", "+ ", "~ ", "! ", "# ")
_HEAD = re.compile(r"== (\S+) (?:(\S+):)?(\S+) @ (.+)")


@dataclass(frozen=True, kw_only=True)
class Row(Change):
    """A mistake of a set, `part`: `blame` are globs of the paths of wrong modules, `ways` say the mechanism, `also` are
    other lines that an answer may name.
    """

    family: str
    part: str
    blame: tuple[str, ...]
    ways: tuple[str, ...]
    also: tuple[str, ...]

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The ways to say the mechanism, as expressions; raises `re.error` for what is none."""
        return tuple(alternative(way) for way in self.ways)

    def fits(self, said: str) -> bool:
        """Whether an answer, its name and its text, says the mechanism."""
        return says(self.alternatives, said)


@cache
def rows() -> Sequence[Row]:
    """Every row of every family that has a file, in the families' order; raises `ParityError` where one is misread."""
    files = {path.stem: path for path in _FOLDER.glob("*.txt")}
    return [row for family in FAMILIES if (path := files.get(family.partition(".")[0])) for row in read(family, path)]


def read(family: str, path: Path) -> Iterator[Row]:
    """The rows of a family's file; raises `ParityError` for what is none, and for a line without a mark."""
    package = family.partition(".")[0]
    blocks = re.split(r"^(?=== )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for number, block in enumerate(blocks[0].splitlines()[:1] + blocks[1:], 1):
        first, *lines = block.splitlines()
        head = _HEAD.fullmatch(first)
        marked = {mark: [line[2:] for line in lines if line.startswith(mark)] for mark in _MARKS}
        stray = [line for line in lines if line[:2] not in _MARKS]
        if head is None or head[1] not in SETS or not marked["- "] or not marked["~ "] or stray:
            raise ParityError(
                f"{path.name}: row {number}",
                "this is no row",
                expected="== first FUNCTION @ MODULES, and lines that begin with -, + and ~",
                got=stray[0] if stray else first,
                next_step="see detection/ported/row.py",
            )
        yield Row(
            name=f"{package}-{number:02}",
            module=head[2] or f"transformers.models.{package}.modeling_{package}",
            function=head[3],
            old="\n".join(marked["- "]),
            new="\n".join(marked["+ "]),
            family=family,
            part=head[1],
            blame=tuple(head[4].split()),
            ways=tuple(re.sub("<([12])>", _number, line) for line in marked["~ "]),
            also=tuple(marked["! "]),
        )


def _number(digit: re.Match[str]) -> str:
    word = {"1": "one", "2": "two"}[digit[1]]
    return rf"(\b{word}\b|(?<![.\w]){digit[1]}(\.0+)?(?!\.?\d|\w))"
