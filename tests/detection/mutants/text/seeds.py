"""How a bug is put into a freshly built tokenizer: a function swap or wrapped, or other files read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detection.mutants.entry import entry
from detection.mutants.mutant import Mutant
from qwen3_encdec.tokenizer.files import TokenizerFiles
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Seed = Callable[[ByteLevelTokenizer], None]
"""Changes the tokenizer that it is given; nothing but that one instance."""


def around(name: str, wrapper: Callable[..., Any]) -> Seed:
    """Put `wrapper(plain, *args, **kwargs)` in the place of the function or method `plain`."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        plain = getattr(tokenizer, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(plain, *args, **kwargs)

        setattr(tokenizer, name, wrapped)

    return seed


def behind(name: str, change: Callable[[Any], Any]) -> Seed:
    """The result of a function or method goes through `change`."""
    return around(name, lambda plain, *args, **kwargs: change(plain(*args, **kwargs)))


def swap(name: str, make: Callable[[ByteLevelTokenizer], Any]) -> Seed:
    """Put what `make(tokenizer)` returns, mostly a function, in the place of an attribute."""
    return lambda tokenizer: setattr(tokenizer, name, make(tokenizer))


def read_as(change: Callable[[TokenizerFiles], TokenizerFiles]) -> Seed:
    """The tokenizer built anew from files that were read wrongly."""
    return lambda tokenizer: ByteLevelTokenizer.__init__(tokenizer, change(tokenizer.files))


def wrong(name: str, says: str, seed: Seed, stages: str, named: str, cases: str) -> Mutant:
    """A bug of some stages, which shows in some cases."""
    return entry(name, says, seed, stages.split(), named, [f"tokenization/{case}" for case in cases.split()])
