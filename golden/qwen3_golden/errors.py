"""The one error of the harness: it says where, which rule, what was expected, what came, and what to do next."""

from __future__ import annotations


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
        super().__init__(f"{prefix}{where}: {rule}\n  expected: {expected}\n  got:      {got}\n  next:     {next_step}")
