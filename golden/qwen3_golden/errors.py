"""The one error of the harness: it says where, which rule, what was expected, what came, and what to do next."""

from __future__ import annotations

from collections.abc import Callable


def printable(text: str) -> str:
    """The text with everything that a terminal would obey or hide escaped, line ends apart.

    What stands in somebody's file – the name of a tap, a tensor, a case – must not move the cursor of who reads it.
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


class ParityError(Exception):
    """Input that cannot be read, verified or matched; the command line turns it into exit code 2.

    `where` is a file, tap or field; `rule` the sentence that was broken; `next_step` what the reader can do.
    `fault` is whose fault it is: "input" for what was given to us, "harness bug" for what we got wrong ourselves.
    """

    def __init__(
        self, where: object, rule: str, *, expected: object, got: object, next_step: str, fault: str = "input"
    ) -> None:
        self.where = str(where)
        self.rule = rule
        self.expected = str(expected)
        self.got = str(got)
        self.next_step = next_step
        self.fault = fault
        prefix = "" if fault == "input" else f"{fault}: "
        text = f"{prefix}{where}: {rule}\n  expected: {expected}\n  got:      {got}\n  next:     {next_step}"
        super().__init__(printable(text))


def refusals(next_step: str) -> Callable[[object, str, object, object], ParityError]:
    """`refuse(where, rule, expected, got)`: the error of one of several refusals after which the same is to be done."""

    def refuse(where: object, rule: str, expected: object, got: object) -> ParityError:
        return ParityError(where, rule, expected=expected, got=got, next_step=next_step)

    return refuse


def unwritable(path: object, kind: str, error: OSError) -> ParityError:
    """The refusal of a disk that does not take `kind`, of which nothing is left behind then."""
    return ParityError(
        path,
        f"the {kind} cannot be written",
        expected="a folder that can be written to and a disk with space",
        got=error.strerror or error,
        next_step="free space or choose another folder; nothing was left behind",
    )
