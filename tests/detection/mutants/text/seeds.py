"""How a bug is put into a freshly built tokenizer: a function replaced or wrapped, or other files read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from qwen3_encdec.tokenizer.files import TokenizerFiles
from qwen3_encdec.tokenizer.stages import PreToken, Stages
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer

Seed = Callable[[ByteLevelTokenizer], None]
"""Changes the tokenizer that it is given; nothing but that one instance."""

Part = tuple[int, int, int | None]
"""Begin, end and added token, as `ByteLevelTokenizer.split` gives them."""


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


def made(name: str, make: Callable[[ByteLevelTokenizer], Any]) -> Seed:
    """Put what `make(tokenizer)` returns in the place of an attribute."""
    return lambda tokenizer: setattr(tokenizer, name, make(tokenizer))


def put(name: str, value: Any) -> Seed:
    """Put a value, mostly a function, in the place of an attribute."""
    return lambda tokenizer: setattr(tokenizer, name, value)


def read_as(change: Callable[[TokenizerFiles], TokenizerFiles]) -> Seed:
    """The tokenizer built anew from files that were read wrongly."""
    return lambda tokenizer: ByteLevelTokenizer.__init__(tokenizer, change(tokenizer.files))


def both(*seeds: Seed) -> Seed:
    """One seed after another."""

    def seed(tokenizer: ByteLevelTokenizer) -> None:
        for one in seeds:
            one(tokenizer)

    return seed


def pre_tokens(change: Callable[[PreToken, str, str], PreToken]) -> Seed:
    """Each pre-token of the stages goes through `change(pre-token, normalised text, text of its segment)`."""

    def changed(stages: Stages) -> Stages:
        segments = (
            replace(
                segment,
                pre_tokens=tuple(
                    change(one, segment.normalized, stages.text[segment.begin : segment.end])
                    for one in segment.pre_tokens
                ),
            )
            for segment in stages.segments
        )
        return replace(stages, segments=tuple(segments))

    return behind("stages", changed)


def parts(text: str, found: Iterable[tuple[int, int, int]]) -> list[Part]:
    """The parts of a text for added tokens found at ascending places, plain text between them."""
    out: list[Part] = []
    done = 0
    for begin, end, token in found:
        if done < begin:
            out.append((done, begin, None))
        out.append((begin, end, token))
        done = end
    return [*out, (done, len(text), None)] if done < len(text) else out


def names(tokenizer: ByteLevelTokenizer) -> dict[str, int]:
    """Each added token's text and its id."""
    return {token.content: token.id for token in tokenizer.added_tokens}
