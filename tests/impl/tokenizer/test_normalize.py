"""NFC against Hugging Face's: every character, every order of marks, every pair; and where each character came from."""

import random
from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from qwen3_encdec.tokenizer.normalize import LONGEST_REMEMBERED, nfc, nfc_with_origin
from qwen3_encdec.tokenizer.unicode_tables import unicode_tables

TABLES = unicode_tables()
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
ONE_MARK_OF_EACH_CLASS = list({number: mark for mark, number in TABLES.combining_classes.items()}.values())
SECONDS = sorted({pair[1] for pair in TABLES.compositions})
INVOLVED = sorted({*TABLES.decompositions, *TABLES.combining_classes, *SECONDS, *(p[0] for p in TABLES.compositions)})
JAMO = [chr(code) for code in (*range(0x10FE, 0x1115), *range(0x115F, 0x1178), *range(0x11A6, 0x11C5))]
theirs: Callable[[str], str] = normalizers.NFC().normalize_str


def differing(texts: list[str]) -> list[str]:
    return [ascii(text) for text in texts if nfc(text) != theirs(text)]


@pytest.fixture(scope="module")
def their_offsets() -> Callable[[str], list[tuple[int, int]]]:
    """One for each byte of the normalised text."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: at for at, symbol in enumerate(symbols)}, merges=[]))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return lambda text: tokenizer.encode(text).offsets


def mixtures(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    kinds = ("aeo \n", INVOLVED, SECONDS, ONE_MARK_OF_EACH_CLASS, JAMO, "\uac00\uac01\ud7a3\u1e69\u00e9")
    return ["".join(draw.choice(draw.choice(kinds)) for _ in range(draw.randint(1, 9))) for _ in range(count)]


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_every_character_alone_and_between_marks_below_and_above_is_normalised_as_by_hugging_face(step: int) -> None:
    """Alone, of those that nothing is done to, a sixteenth in `make test`."""
    apart = "\n".join([*CHARACTERS[11::step], *INVOLVED])
    between = "\n".join(f"e{c}\u0301{c}\u0323" for c in INVOLVED)
    assert nfc(apart) == theirs(apart)
    assert nfc(between) == theirs(between)


def test_a_mark_of_every_class_finds_its_place_before_and_behind_every_other() -> None:
    marks = "".join(ONE_MARK_OF_EACH_CLASS)
    assert not differing([f"{c}{marks[::-1]}{c}{marks}" for c in (*ONE_MARK_OF_EACH_CLASS, "e", "\u1e69", "\uac00")])
    assert not differing([a + b for a in ONE_MARK_OF_EACH_CLASS for b in ONE_MARK_OF_EACH_CLASS])


def test_every_involved_character_before_every_second_of_a_pair_is_composed_as_by_hugging_face() -> None:
    for second in SECONDS:
        text = "\n".join(first + second for first in INVOLVED)
        assert nfc(text) == theirs(text), ascii(second)


@pytest.mark.slow
def test_any_character_before_every_second_of_a_pair_is_composed_as_by_hugging_face() -> None:
    for second in SECONDS:
        text = "\n".join(first + second for first in CHARACTERS[:0x12000] if first != "\n")
        assert nfc(text) == theirs(text), ascii(second)


def test_hangul_is_computed_as_by_hugging_face() -> None:
    assert not differing([a + b + c for a in JAMO[:24] for b in JAMO[24:49] for c in (*JAMO[49:], "a")])
    assert not differing([chr(code) + tail for code in range(0xAC00, 0xD7A4, 7) for tail in JAMO[49:]])


def test_random_mixtures_are_normalised_as_by_hugging_face() -> None:
    seed = 11
    assert not differing(mixtures(seed, 20_000)), seed


def test_a_long_run_of_marks_is_sorted_whole() -> None:
    text = "a" + "\u0301\u0323" * LONGEST_REMEMBERED
    assert nfc(text) == theirs(text)
    assert nfc(text)[:3] == "\u1ea1\u0301\u0323"[:1] + "\u0323" * 2


def test_the_tables_are_hugging_faces_and_not_pythons() -> None:
    # U+1ABF is a mark to newer tables: they would put it before the acute.
    text = "a\u0302\u1abf\u0301"
    assert nfc(text) == theirs(text) == "\u00e2\u1abf\u0301"


def test_text_with_nothing_to_change_is_returned_itself() -> None:
    text = "Ein Zug fährt durch Łódź: 北京 한국어"
    assert nfc(text) is text


def test_each_character_came_from_where_hugging_face_says(
    their_offsets: Callable[[str], list[tuple[int, int]]],
) -> None:
    seed = 12
    for text in (*mixtures(seed, 5_000), *(f"x{c}\u0323" for c in INVOLVED)):
        result, origin = nfc_with_origin(text)
        assert result == theirs(text), (seed, ascii(text))
        of_bytes = [place for c, place in zip(result, origin, strict=True) for _ in c.encode()]
        assert of_bytes == their_offsets(text), (seed, ascii(text))


def test_a_composed_character_came_from_the_first_of_its_parts() -> None:
    assert nfc_with_origin(" cafe\u0301!") == (" caf\u00e9!", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7)])


def test_what_was_put_in_first_came_from_nowhere() -> None:
    assert nfc_with_origin("\u0344") == ("\u0308\u0301", [(0, 1), (0, 1)])
    assert nfc_with_origin("\u0344\u0334") == ("\u0334\u0308\u0301", [(0, 1), (1, 2), (1, 2)])


def test_empty_text_stays_empty() -> None:
    assert nfc("") == ""
    assert nfc_with_origin("") == ("", [])
