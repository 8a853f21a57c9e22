"""Span corruption: how much is hidden, in which order sentinels stand, and that nothing is lost."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM
from qwen3_encdec.span_corruption import UL2, Denoiser, corrupt, counts, noise_spans, restore
from qwen3_encdec.tokenization_qwen3_encdec import SpanCorruptionCollator, add_sentinels
from qwen3_golden import GOLDEN_ROOT

SENTINELS = range(1000, 1100)
TINY = GOLDEN_ROOT / "tokenizers" / "tiny"


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    largest = max(AutoTokenizer.from_pretrained(TINY).get_vocab().values())
    return add_sentinels(TINY, (largest // 64 + 1) * 64, 100)


denoisers = st.builds(Denoiser, st.floats(0.01, 0.99), st.one_of(st.floats(1, 80), st.just(math.inf)))


@given(st.integers(2, 600), denoisers, st.integers(0, 2**31))
def test_corruption_has_an_exact_inverse(length: int, denoiser: Denoiser, seed: int) -> None:
    ids = torch.randint(0, 1000, (length,), generator=seeded(seed)).tolist()
    spans = noise_spans(length, denoiser, seeded(seed))
    sentinels = range(1000, 1000 + len(spans))
    assert restore(*corrupt(ids, spans, sentinels), sentinels) == ids


@given(st.integers(2, 600), denoisers, st.integers(0, 2**31))
def test_as_many_ids_are_hidden_as_asked_and_spans_do_not_touch(length: int, denoiser: Denoiser, seed: int) -> None:
    spans = noise_spans(length, denoiser, seeded(seed))
    hidden, number = counts(length, denoiser)
    assert (sum(end - begin for begin, end in spans), len(spans)) == (hidden, number)
    assert spans[0][0] > 0 and all(a[1] < b[0] for a, b in pairwise(spans)) and spans[-1][1] == length


def test_t5_hides_15_percent_in_spans_of_three() -> None:
    assert counts(512, Denoiser()) == (77, 26)


def test_sequential_denoising_hides_the_end() -> None:
    assert noise_spans(100, UL2[-1]) == [(75, 100)]


def test_sentinels_stand_in_ascending_order_on_both_sides() -> None:
    source, target = corrupt(list(range(10)), [(1, 3), (5, 6), (8, 10)], SENTINELS)
    assert source == [0, 1000, 3, 4, 1001, 6, 7, 1002]
    assert target == [1000, 1, 2, 1001, 5, 1002, 8, 9]


def test_ids_behind_the_last_span_stay() -> None:
    assert corrupt([5, 6, 7, 8], [(1, 2)], SENTINELS) == ([5, 1000, 7, 8], [1000, 6])


def test_every_way_of_cutting_is_drawn() -> None:
    drawn = {tuple(noise_spans(6, Denoiser(0.5, 1.5), seeded(seed))) for seed in range(200)}
    assert len(drawn) == 4  # 3 hidden in 2 spans: 2 ways, and 2 ways for the ids between them


def test_the_same_generator_hides_the_same_ids() -> None:
    assert noise_spans(500, Denoiser(), seeded(5)) == noise_spans(500, Denoiser(), seeded(5))


@pytest.mark.parametrize(
    ("ids", "spans", "message"),
    [
        ([1, 2, 3], [(0, 2), (1, 3)], "does not follow"),
        ([1, 2, 3], [(2, 5)], "does not follow"),
        ([1, 2, 3], [(1, 1)], "does not follow"),
        ([1, 1000, 3], [(0, 1)], "is a sentinel already"),
        ([1] * 300, [(i, i + 1) for i in range(0, 250, 2)], "125 spans need as many sentinels; there are 100"),
    ],
)
def test_what_cannot_be_undone_is_refused(ids: list[int], spans: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corrupt(ids, spans, SENTINELS)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([0, 1000], [1001, 5], "the input has the sentinels"),
        ([0, 1000, 1001], [1001, 5, 1000, 6], "the input has the sentinels"),
        ([0, 1000], [1000, 5, 1000, 6], "not used before"),
        ([0, 1000], [7, 1000, 5], "the target has 7"),
    ],
)
def test_halves_that_do_not_belong_together_are_refused(source: list[int], target: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        restore(source, target, SENTINELS)


@pytest.mark.parametrize("fields", [(0.0, 3), (1.0, 3), (0.15, 0.5), (math.nan, 3)])
def test_impossible_denoisers_are_refused(fields: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        Denoiser(*fields)


def test_one_id_is_too_short_to_corrupt() -> None:
    with pytest.raises(ValueError, match="a sequence of 1 ids"):
        noise_spans(1, Denoiser())


def test_a_batch_restores_to_its_texts(tokenizer: Any) -> None:
    texts = [
        "The quick brown fox jumps over the lazy dog.",
        "Zwei Wörter",
        "漢字とかな, and a longer line of words" * 3,
    ]
    examples = [{"input_ids": tokenizer.encode(text, add_special_tokens=False)} for text in texts]
    collator = SpanCorruptionCollator(tokenizer, generator=seeded())
    batch = collator(examples)
    assert batch["input_ids"].shape == batch["attention_mask"].shape
    for row, example in enumerate(examples):
        source = batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist()
        target = batch["labels"][row][batch["labels"][row] != -100].tolist()
        assert source[-1] == target[-1] == tokenizer.eos_token_id
        assert restore(source[:-1], target[:-1], collator.sentinels) == example["input_ids"]


def test_ul2_puts_its_mode_in_front(tokenizer: Any) -> None:
    collator = SpanCorruptionCollator(tokenizer, UL2[-1:], seeded())
    row = collator([list(range(40, 80))])["input_ids"][0].tolist()
    assert tokenizer.decode(row).startswith("[S]") and row[-2] == collator.sentinels[0]


def test_a_batch_goes_through_the_model(tokenizer: Any) -> None:
    collator = SpanCorruptionCollator(tokenizer, generator=seeded())
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen3EncoderDecoderConfig(
        **sizes,
        num_key_value_heads=1,
        head_dim=8,
        vocab_size=collator.sentinels.stop,
        num_sentinel_tokens=100,
        decoder_start_token_id=tokenizer.pad_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    loss = Qwen3ForSeq2SeqLM(config)(**collator([list(range(50)), list(range(20))])).loss
    assert torch.isfinite(loss)


def test_a_tokenizer_without_sentinels_makes_no_collator() -> None:
    with pytest.raises(ValueError, match="says nothing of sentinels"):
        SpanCorruptionCollator(AutoTokenizer.from_pretrained(TINY))


def test_an_empty_batch_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="at least one example"):
        SpanCorruptionCollator(tokenizer)([])
