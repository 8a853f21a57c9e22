"""The one error of the tokenizer: it says where, which rule, what was expected, what came, and what to do next."""


class TokenizerError(ValueError):
    """A tokenizer's file, a text or ids that cannot be used.

    `where` is a file, an argument or a place in it; `rule` the sentence that was broken; `next_step` what the reader
    can do.
    """

    def __init__(self, where: object, rule: str, *, expected: object, got: object, next_step: str) -> None:
        self.where = str(where)
        self.rule = rule
        self.expected = str(expected)
        self.got = str(got)
        self.next_step = next_step
        super().__init__(f"{where}: {rule}\n  expected: {expected}\n  got:      {got}\n  next:     {next_step}")
