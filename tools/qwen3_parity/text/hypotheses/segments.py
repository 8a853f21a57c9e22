"""Wrong ways to cut a text at its added tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qwen3_golden import pb
from qwen3_parity.text.hypotheses.wrong import Compute, Wrong, wrong_ways
from qwen3_parity.text.oracle import Oracle, State
from qwen3_parity.text.stages_of import TRUTH

Found = list[tuple[int, int, int]]
"""Added tokens in a text: begin, end, id."""
SENTINEL = re.compile(r"<extra_id_(\d+)>")


def cut(length: int, found: Found) -> Any:
    """The segments of a text: added tokens and what stands between them."""
    out: list[tuple[int, int, int | None]] = []
    done = 0
    for begin, end, number in found:
        out += [(done, begin, None)] if begin > done else []
        out.append((begin, end, number))
        done = end
    return (*out, (done, length, None)) if length > done else tuple(out)


def _right(oracle: Oracle, given: pb.Encoding) -> Found:
    return [one for one in TRUTH["segments"](oracle, given, {}) if one[2] is not None]


def changed(change: Callable[[Oracle, str, Found], Found]) -> Compute:
    """The added tokens that Hugging Face finds, changed."""
    return lambda oracle, given, _: cut(len(given.text), change(oracle, given.text, _right(oracle, given)))


def _split(split: Callable[[bool], bool], keep: Callable[[dict[str, Any]], bool] = lambda token: True) -> Compute:
    """Another meaning of split_special_tokens; `keep` says of an added token whether it is found at all."""

    def compute(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
        kept = {one["id"] for one in oracle.added if keep(one)}
        asked = pb.Encoding(text=given.text, split_special_tokens=split(given.split_special_tokens))
        return cut(len(given.text), [one for one in _right(oracle, asked) if one[2] in kept])

    return compute


def _search(pattern: Callable[[Sequence[str]], str], flags: int = 0, longest: bool = True) -> Compute:
    """A regex over the contents of the added tokens; the match, or its lower case, is looked up."""

    def compute(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
        tokens = [one for one in oracle.added if not (given.split_special_tokens and one["special"])]
        ids = {one["content"].lower(): one["id"] for one in tokens}
        names = sorted((one["content"] for one in tokens), key=len, reverse=longest)
        if not names:
            return cut(len(given.text), [])
        matches = re.finditer(pattern(names), given.text, flags)
        found = [(*one.span(), _id(ids, one[0])) for one in matches]
        return cut(len(given.text), [(begin, end, number) for begin, end, number in found if number is not None])

    return compute


def _id(ids: dict[str, int], name: str) -> int | None:
    return next((ids[one] for one in (name.lower(), f"{name.lower()}>") if one in ids), None)


def _either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


def _prefixes(names: Sequence[str]) -> str:
    """Sentinels are known by one digit, with or without the bracket behind it."""
    others = [name for name in names if not SENTINEL.fullmatch(name)]
    return "|".join([r"<extra_id_\d>?", *map(re.escape, others)])


def _strip(left: bool, right: bool) -> Compute:
    def change(_: Oracle, text: str, found: Found) -> Found:
        out: Found = []
        for place, (begin, end, number) in enumerate(found):
            floor = out[-1][1] if out else 0
            limit = found[place + 1][0] if place + 1 < len(found) else len(text)
            begin = floor + len(text[floor:begin].rstrip()) if left and begin > floor else begin
            end = limit - len(text[end:limit].lstrip()) if right else end
            out.append((begin, end, number))
        return out

    return changed(change)


def _strip_left_first(oracle: Oracle, given: pb.Encoding, state: State) -> Any:
    left = _strip(True, False)(oracle, given, state)
    found = [one for one in left if one[2] is not None]
    ends = [*(one[0] for one in found[1:]), len(given.text)]
    between = [given.text[one[1] : end] for one, end in zip(found, ends, strict=False)]
    spaces = [len(text) - len(text.lstrip()) for text in between]
    taken = [(begin, end + more, number) for (begin, end, number), more in zip(found, spaces, strict=True)]
    return cut(len(given.text), taken)


def _one_space(_: Oracle, text: str, found: Found) -> Found:
    return [(begin - (text[begin - 1 : begin] == " "), end, number) for begin, end, number in found]


def _first_only(_: Oracle, text: str, found: Found) -> Found:
    return [one for place, one in enumerate(found) if one[2] not in {other[2] for other in found[:place]}]


def _joined(_: Oracle, text: str, found: Found) -> Found:
    out: Found = []
    for begin, end, number in found:
        if out and out[-1][1] == begin and out[-1][2] == number:
            out[-1] = (out[-1][0], end, number)
        else:
            out.append((begin, end, number))
    return out


def _not_adjacent(_: Oracle, text: str, found: Found) -> Found:
    out: Found = []
    for one in found:
        out += [one] if not out or out[-1][1] < one[0] else []
    return out


def _of_normalized(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
    normalizer = oracle.reference.backend.normalizer
    text = given.text if normalizer is None else normalizer.normalize_str(given.text)
    return TRUTH["segments"](oracle, pb.Encoding(text=text, split_special_tokens=given.split_special_tokens), {})


def _empty_kept(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
    out: list[tuple[int, int, int | None]] = []
    done = 0
    for begin, end, number in _right(oracle, given):
        out += [(done, begin, None), (begin, end, number)]
        done = end
    return *out, (done, len(given.text), None)


def _stripped(oracle: Oracle, given: pb.Encoding, _: State) -> Any:
    found = TRUTH["segments"](oracle, given, {})
    kept: list[tuple[int, int, int | None]] = []
    for begin, end, number in found:
        text = given.text[begin:end]
        first, last = begin + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
        kept += [(begin, end, number)] if number is not None else [(first, last, None)] if first < last else []
    return tuple(kept)


_FOUND = wrong_ways(
    "segments",
    "cut the raw text first, at the longest added token that begins leftmost; special ones only if not split",
    [
        ("added_as_text", "finds no added tokens: their names are plain text", _split(bool, lambda one: False)),
        ("special_as_text", "finds no special tokens: their names are plain text", _split(lambda split: True)),
        ("special_in_user_text", "ignores split_special_tokens: special tokens are found in a user's words",
            _split(lambda split: False)),
        ("split_inverted", "takes split_special_tokens for its contrary", _split(lambda split: not split)),
        ("user_defined_as_text", "finds special tokens alone: added tokens like <think> are plain text",
            _split(bool, lambda one: bool(one["special"]))),
        ("split_hides_all", "split_special_tokens hides all added tokens, also those that are not special",
            lambda o, g, s: _split(bool, lambda one: not g.split_special_tokens)(o, g, s)),
        ("shortest_first", "takes the shortest of the tokens that begin at a place", _search(_either, longest=False)),
        ("shortest_first", "knows sentinels by their first digit: <extra_id_10> is <extra_id_1>, then 0>",
            _search(_prefixes)),
        ("any_case", "finds added tokens in any case", _search(_either, re.IGNORECASE)),
        ("between_spaces", "finds added tokens only between white space",
            _search(lambda names: rf"(?<!\S)(?:{_either(names)})(?!\S)")),
        ("single_word", "finds added tokens only where no word touches them",
            _search(lambda names: rf"(?<!\w)(?:{_either(names)})(?!\w)")),
        ("whole_text", "finds an added token only when it is the whole text",
            _search(lambda names: rf"\A(?:{_either(names)})\Z")),
        ("at_the_start", "finds an added token only at the start", _search(lambda names: rf"\A(?:{_either(names)})")),
        ("first_only", "finds each added token once", changed(_first_only)),
        ("one_only", "finds the first added token alone", changed(lambda o, t, found: found[:1])),
        ("joined", "takes equal neighbours for one", changed(_joined)),
        ("not_adjacent", "misses an added token right behind another", changed(_not_adjacent)),
        ("of_normalized", "normalises before it looks for added tokens, and counts in that text", _of_normalized),
        ("empty_kept", "keeps empty segments between added tokens", _empty_kept),
    ],
)  # fmt: skip

_SPACES = wrong_ways(
    "segments",
    "follow each added token's flags lstrip, rstrip and single_word; Qwen's have none: spaces beside them stay text",
    [
        ("lstrip", "takes the white space before an added token along", _strip(True, False)),
        ("rstrip", "takes the white space behind an added token along", _strip(False, True)),
        ("strip", "takes the white space around an added token along", _strip(True, True)),
        ("strip", "takes the white space around an added token along", _strip_left_first),
        ("lstrip", "takes one space before an added token along", changed(_one_space)),
        ("plain_stripped", "strips white space from the plain text between added tokens", _stripped),
    ],
)

WRONG: list[Wrong] = [*_FOUND, *_SPACES]
"""Of the stage `segments`: what is found, and how much of the text it takes."""
