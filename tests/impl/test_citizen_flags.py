"""What the classes say of themselves, by which transformers and its test suites choose what to ask of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from qwen3_encdec import Qwen3Decoder, Qwen3Encoder, Qwen3ForSeq2SeqLM

CLASSES = pytest.mark.parametrize("kind", [Qwen3ForSeq2SeqLM, Qwen3Encoder, Qwen3Decoder])
CAN = (
    *("_supports_sdpa", "_supports_flex_attn", "_supports_attention_backend"),
    *("_can_compile_fullgraph", "supports_gradient_checkpointing"),
)
CANNOT = ("_supports_flash_attn", "_supports_context_parallel")


@CLASSES
def test_the_class_says_what_the_readme_says(kind: Any) -> None:
    assert {name: getattr(kind, name) for name in (*CAN, *CANNOT)} == {
        **dict.fromkeys(CAN, True),
        **dict.fromkeys(CANNOT, False),
    }


def test_there_is_no_base_model_and_each_stack_is_a_model_of_its_own(make_model: Any) -> None:
    model = make_model()
    assert model.base_model is model
    assert model.get_encoder() is model.encoder and model.get_decoder() is model.decoder


@torch.no_grad()
def test_logits_are_kept_of_the_last_positions_or_of_those_that_are_named(make_model: Any, ids: Any) -> None:
    model, given = make_model(), {"input_ids": ids(2, 5), "decoder_input_ids": ids(2, 4)}
    every = model(**given).logits
    for kept, expected in ((0, every), (1, every[:, 3:]), (3, every[:, 1:]), (torch.tensor([0, 2]), every[:, ::2])):
        torch.testing.assert_close(model(**given, logits_to_keep=kept).logits, expected)


@pytest.mark.parametrize("kept", [-1, 1.5, "2"])
def test_a_count_of_logits_that_is_none_is_refused(kept: Any, make_model: Any, ids: Any) -> None:
    with pytest.raises(ValueError, match="logits_to_keep"):
        make_model()(ids(2, 5), decoder_input_ids=ids(2, 4), logits_to_keep=kept)
