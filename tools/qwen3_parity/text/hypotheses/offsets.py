"""Wrong ways to say which characters of the text an id stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH
from qwen3_reference.tokenization.decoding import piece_bytes

Span = tuple[int, int]


def _each(change: Callable[[str, Span], Span]) -> Compute:
    """Hugging Face's span of each id, changed."""

    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        return tuple(change(given.text, span) for span in TRUTH["offsets"](oracle, given, state))

    return compute


def _all(change: Callable[[Oracle, str, State, Sequence[Span]], Sequence[Span]]) -> Compute:
    def compute(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
        return tuple(change(oracle, given.text, state, TRUTH["offsets"](oracle, given, state)))

    return compute


def _measured(size: Callable[[str], int]) -> Compute:
    return _each(lambda text, span: (size(text[: span[0]]), size(text[: span[1]])))


def _trimmed(text: str, span: Span) -> Span:
    part = text[span[0] : span[1]]
    return (span[0] + len(part) - len(part.lstrip()), span[1]) if part.strip() else span


def _trimmed_both(text: str, span: Span) -> Span:
    part = text[span[0] : span[1]]
    first, last = span[0] + len(part) - len(part.lstrip()), span[1] - len(part) + len(part.rstrip())
    return (first, last) if part.strip() else span


def _trimmed_whole(text: str, span: Span) -> Span:
    part = text[span[0] : span[1]]
    return span[0] + len(part) - len(part.lstrip()), span[1]


def _of_prefixes(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    """As many characters as what stands before it has when it is normalised."""
    normalizer = oracle.reference.backend.normalizer
    sizes = {at: len(normalizer.normalize_str(text[:at])) for span in right for at in span}
    return [(sizes[begin], sizes[end]) for begin, end in right]


def _of_normalized(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    """Counted in the normalised segments put together."""
    out, done, plain = list[Span](), 0, iter(state["normalized"])
    ids = iter(state["ids"].whole)
    counts = [len(pieces) for pieces in state["pre_tokens"]]
    each, place, segment = list(state["ids"].each or ()), 0, 0
    for begin, end, added in state["segments"]:
        if added is not None:
            out.append((done, done + end - begin))
            done += end - begin
            next(ids, None)
            continue
        normalized = next(plain)
        pieces = state["pre_tokens"][segment]
        for piece, numbers in zip(pieces, each[place : place + counts[segment]], strict=False):
            out += _in_bytes(oracle, normalized, piece.begin_byte, numbers, done)
        place, segment, done = place + counts[segment], segment + 1, done + len(normalized)
    return out


def _in_bytes(oracle: Oracle, text: str, byte: int, numbers: Sequence[int], before: int) -> list[Span]:
    data, out = text.encode(), list[Span]()
    for number in numbers:
        size = len(piece_bytes(oracle.pieces[number]))
        begin = len(data[:byte].decode(errors="ignore"))
        end = len(data[: byte + size].decode(errors="ignore"))
        out.append((before + begin, before + max(end, begin + 1)))
        byte += size
    return out


def _own_text(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    """The lengths of what each id decodes to alone, added up."""
    out, done = list[Span](), 0
    for number in state["ids"].whole:
        size = len(piece_bytes(oracle.pieces[number]).decode(errors="replace"))
        out.append((done, done + size))
        done += size
    return out


def _joined(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    """Spans without holes and overlaps: each begins where the one before ends."""
    begins = [span[0] for span in right]
    return [(begin, end) for begin, end in zip(begins, [*begins[1:], len(text)], strict=False)]


def _to_the_next(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    """A character's combining marks belong to it: spans reach to where the next one begins."""
    begins = [*(span[0] for span in right), len(text)]
    return [(b, max(e, begins[n + 1])) for n, (b, e) in enumerate(right)]


def _first_takes_it(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    out, done = list[Span](), 0
    for begin, end in right:
        begin = max(begin, done)
        done = max(end, begin)
        out.append((begin, done))
    return out


def _last_takes_it(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    out, limit = list[Span](), len(text)
    for begin, end in reversed(right):
        end = min(end, limit)
        limit = min(begin, end)
        out.append((limit, end))
    return out[::-1]


def _last_alone(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    behind = [*right[1:], (-1, -1)]
    return [(one[0], one[0]) if one == following else one for one, following in zip(right, behind, strict=True)]


def _first_alone(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    before = [(-1, -1), *right][: len(right)]
    return [(one[1], one[1]) if one == former else one for one, former in zip(right, before, strict=True)]


def _no_special(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    return [
        (0, 0) if number in oracle.reference.added else span
        for number, span in zip(state["ids"].whole, right, strict=True)
    ]


def _in_segment(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    starts = [next((begin for begin, end, _ in state["segments"] if begin <= span[0] < end), 0) for span in right]
    return [(begin - start, end - start) for start, (begin, end) in zip(starts, right, strict=True)]


def _pre_tokens(oracle: Oracle, text: str, state: State, right: Sequence[Span]) -> Sequence[Span]:
    """Every id has the span of its whole pre-token."""
    groups: list[int] = []
    each = iter(state["ids"].each or ())
    counts = iter([len(pieces) for pieces in state["pre_tokens"]])
    for _, _, added in state["segments"]:
        groups += [1] if added is not None else [len(next(each)) for _ in range(next(counts))]
    out, at = list[Span](), 0
    for size in groups:
        part = right[at : at + size]
        out += [(part[0][0], part[-1][1])] * size if part else []
        at += size
    return out


WRONG: list[Wrong] = wrong_ways(
    "offsets",
    "map ids to characters (code points) of the raw text as Hugging Face does: every id of a character has all of it",
    [
        ("bytes", "counts bytes of UTF-8", _measured(lambda text: len(text.encode()))),
        ("utf16_units", "counts UTF-16 units", _measured(lambda text: len(text.encode("utf-16-le")) // 2)),
        ("of_normalized", "counts in the normalised text", _all(_of_normalized)),
        ("of_normalized", "counts in the normalised text", _all(_of_prefixes)),
        ("of_segment", "counts from the start of the segment", _all(_in_segment)),
        ("of_pre_tokens", "gives every id the span of its pre-token", _all(_pre_tokens)),
        ("of_decoded", "adds up the lengths of what each id decodes to alone", _all(_own_text)),
        ("trimmed", "leaves the white space in front of a word out (trim_offsets)", _each(_trimmed)),
        ("trimmed", "leaves leading white space out, also where there is nothing else", _each(_trimmed_whole)),
        ("trimmed", "leaves white space out on both sides (trim_offsets)", _each(_trimmed_both)),
        ("marks_included", "counts combining marks to the character that they composed with", _all(_to_the_next)),
        ("joined", "lets each span reach to the next", _all(_joined)),
        ("first_of_a_character", "gives a character to the first of its ids", _all(_first_takes_it)),
        ("partial_characters", "gives a character to the last of its ids", _all(_last_takes_it)),
        ("inclusive", "gives the last character as the end", _each(lambda text, span: (span[0], span[1] - 1))),
        ("lengths_as_ends", "gives lengths where ends are asked for",
            _each(lambda text, span: (span[0], span[1] - span[0]))),
        ("shifted", "gives each id the span of the one before",
            _all(lambda o, t, s, right: [(0, 0), *right][: len(right)])),
        ("shifted", "gives each id the span of the next", _all(lambda o, t, s, right: [*right[1:], (len(t), len(t))])),
        ("no_special", "gives added tokens no span", _all(_no_special)),
        ("partial_characters", "of the ids inside a character only the last has it", _all(_last_alone)),
        ("partial_characters", "of the ids inside a character only the first has it", _all(_first_alone)),
        ("zero", "gives no spans", _each(lambda text, span: (0, 0))),
        ("from_one", "counts from 1", _each(lambda text, span: (span[0] + 1, span[1] + 1))),
    ],
)  # fmt: skip
"""Of the stage `offsets`."""
