"""The user's tokenizer: text → ids → embedding row → ids → text, sentinels included, and what may not disagree."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM
from qwen3_encdec.tokenization_qwen3_encdec import add_sentinels, check_agreement, sentinel_name
from qwen3_golden import GOLDEN_ROOT

TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
COUNT = 100
TEXTS = [
    "a <extra_id_0> b",
    "<extra_id_1><extra_id_10>0 <extra_id_99>  <extra_id_100>",
    "<|im_start|>user\nHello<|im_end|><think>\n\n</think>",
    "plain words, 123 and 漢字 🙂\r\n\t",
]


def real() -> Path:
    data = os.environ.get("QWEN3_PARITY_DATA")
    if not data:
        pytest.skip("QWEN3_PARITY_DATA is not set: the real vocabulary is not here")
    return Path(data) / "qwen3-tokenizer"


@pytest.fixture(scope="module", params=["tiny", pytest.param("real", marks=pytest.mark.slow)])
def source(request: pytest.FixtureRequest) -> Path:
    return TINY if request.param == "tiny" else real()


@pytest.fixture(scope="module")
def plain(source: Path) -> Any:
    """The source's own tokenizer."""
    return AutoTokenizer.from_pretrained(source)


@pytest.fixture(scope="module")
def rows(plain: Any) -> int:
    """The padded size: a multiple of 128 beyond the source's ids, as Qwen pads."""
    largest = max(plain.get_vocab().values())
    return (largest // 128 + 2) * 128


@pytest.fixture(scope="module")
def tokenizer(source: Path, rows: int) -> Any:
    return add_sentinels(source, rows, COUNT)


@pytest.fixture(scope="module")
def again(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Saved, loaded, saved and loaded."""
    for folder in (tmp_path_factory.mktemp("once"), tmp_path_factory.mktemp("twice")):
        tokenizer.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer


def config_for(tokenizer: Any, rows: int, **fields: Any) -> Qwen3EncoderDecoderConfig:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    more = {"num_key_value_heads": 1, "head_dim": 8, "vocab_size": rows + COUNT, "num_sentinel_tokens": COUNT}
    return Qwen3EncoderDecoderConfig(**(sizes | ids | more | fields))


def ids_of(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def test_sentinel_i_is_the_row_behind_the_padded_size(tokenizer: Any, rows: int) -> None:
    assert [tokenizer.convert_tokens_to_ids(sentinel_name(i)) for i in range(COUNT)] == list(range(rows, rows + COUNT))


def test_every_other_token_keeps_its_id(tokenizer: Any, plain: Any, rows: int) -> None:
    assert {name: number for name, number in tokenizer.get_vocab().items() if number < rows} == plain.get_vocab()


def test_saving_and_loading_twice_changes_no_id(tokenizer: Any, again: Any) -> None:
    assert again.get_vocab() == tokenizer.get_vocab()
    assert [ids_of(again, text) for text in TEXTS] == [ids_of(tokenizer, text) for text in TEXTS]


def test_text_comes_back_from_its_ids(again: Any) -> None:
    assert [again.decode(ids_of(again, text)) for text in TEXTS] == TEXTS


def test_text_without_sentinels_has_the_ids_of_the_source(tokenizer: Any, plain: Any) -> None:
    assert [ids_of(tokenizer, text) for text in TEXTS[2:]] == [ids_of(plain, text) for text in TEXTS[2:]]


def test_a_sentinel_that_does_not_exist_is_plain_text(tokenizer: Any, rows: int) -> None:
    assert max(ids_of(tokenizer, f"<extra_id_{COUNT}>")) < rows


def test_sentinels_are_special_and_skipped(tokenizer: Any) -> None:
    assert tokenizer.decode(ids_of(tokenizer, TEXTS[0]), skip_special_tokens=True) == "a  b"


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_no_id_of_the_padding_rows_comes_from_text(tokenizer: Any, plain: Any, rows: int, step: int) -> None:
    real_ids = set(plain.get_vocab().values()) | set(range(rows, rows + COUNT))
    pieces = [tokenizer.convert_tokens_to_string([piece]) for piece in sorted(tokenizer.get_vocab())[::step]]
    assert set().union(*tokenizer(pieces, add_special_tokens=False)["input_ids"]) <= real_ids
    assert len(real_ids) < rows + COUNT  # there are padding rows


def test_text_to_row_to_text(tokenizer: Any, rows: int) -> None:
    model = Qwen3ForSeq2SeqLM(config_for(tokenizer, rows))
    ids = torch.tensor(ids_of(tokenizer, TEXTS[0]))
    embedded = model.encoder.embed_tokens(ids)
    looked_up = [int((model.shared.weight == row).all(-1).nonzero()[0]) for row in embedded]
    assert looked_up == ids.tolist() and tokenizer.decode(looked_up) == TEXTS[0]


def test_a_source_beyond_its_embedding_is_refused(source: Path) -> None:
    with pytest.raises(ValueError, match="has no row in an embedding of 300 rows"):
        add_sentinels(source, 300, COUNT)


@pytest.mark.sample(every=2)
def test_sentinels_are_not_added_twice(again: Any, rows: int, tmp_path: Path) -> None:
    again.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="already has <extra_id_0>"):
        add_sentinels(tmp_path, rows + COUNT, COUNT)


def test_tokenizer_config_and_weights_agree(again: Any, rows: int) -> None:
    config = config_for(again, rows)
    check_agreement(again, config, Qwen3ForSeq2SeqLM(config))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 10_000_000}, "<extra_id_0>"),
        ({"num_sentinel_tokens": COUNT - 1}, "<extra_id_0>"),
        ({"pad_token_id": 0}, "pad_token_id is 0 in the config"),
        ({"eos_token_id": [0, 1]}, "eos_token_id is [0, 1] in the config"),
    ],
)
def test_a_config_that_disagrees_is_refused(again: Any, rows: int, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_agreement(again, config_for(again, rows, **fields))


@pytest.mark.sample(every=2)
def test_a_token_that_was_added_later_needs_a_row(again: Any, rows: int, tmp_path: Path) -> None:
    again.save_pretrained(tmp_path)
    grown = AutoTokenizer.from_pretrained(tmp_path)
    grown.add_tokens(["<another>"])
    with pytest.raises(ValueError, match=f"'<another>' has the id {rows + COUNT}"):
        check_agreement(grown, config_for(grown, rows))


def test_sentinels_that_do_not_fit_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="first_sentinel_id = 95: 10 sentinels"):
        Qwen3EncoderDecoderConfig(vocab_size=100, num_sentinel_tokens=10, first_sentinel_id=95)


def test_a_tokenizer_without_sentinels_is_refused(plain: Any, rows: int) -> None:
    with pytest.raises(ValueError, match="reads <extra_id_0> as plain text"):
        check_agreement(plain, config_for(plain, rows))


def test_weights_with_other_rows_are_refused(again: Any, rows: int) -> None:
    model = Qwen3ForSeq2SeqLM(config_for(again, rows, num_sentinel_tokens=0, vocab_size=rows + COUNT - 1))
    with pytest.raises(ValueError, match=f"has {rows + COUNT - 1} rows"):
        check_agreement(again, config_for(again, rows), model)


def test_resizing_to_the_length_of_the_tokenizer_is_refused(again: Any, rows: int) -> None:
    model = Qwen3ForSeq2SeqLM(config_for(again, rows))
    with pytest.raises(ValueError, match="would cut off sentinel rows"):
        model.resize_token_embeddings(len(again))
    assert model.shared.weight.shape[0] == rows + COUNT


def test_growing_behind_the_sentinels_leaves_them_their_rows(again: Any, rows: int, tmp_path: Path) -> None:
    model = Qwen3ForSeq2SeqLM(config_for(again, rows))
    model.resize_token_embeddings(rows + COUNT + 1, pad_to_multiple_of=64, mean_resizing=False)
    model.save_pretrained(tmp_path)
    config = Qwen3EncoderDecoderConfig.from_pretrained(tmp_path)
    assert config.sentinel_start == rows and config.vocab_size > rows + COUNT
    check_agreement(again, config, model)


@pytest.mark.sample(every=2)
def test_model_and_tokenizer_share_a_folder(again: Any, rows: int, tmp_path: Path) -> None:
    Qwen3ForSeq2SeqLM(config_for(again, rows)).save_pretrained(tmp_path)
    again.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).get_vocab() == again.get_vocab()
