"""Saving and loading: the same bits, the ties kept, also through the Auto classes and the meta device."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForSeq2SeqLM

from qwen3_encdec import Qwen3ForSeq2SeqLM


def _stored(directory: Path) -> set[str]:
    with safe_open(directory / "model.safetensors", framework="pt") as file:
        return set(file.keys())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("loader", [Qwen3ForSeq2SeqLM, AutoModelForSeq2SeqLM])
@torch.no_grad()
def test_loaded_model_has_the_same_bits_and_ties(
    make_model: Any, ids: Any, tmp_path: Path, tied: bool, loader: Any
) -> None:
    model = make_model(tie_word_embeddings=tied)
    expected = model(ids(2, 4), decoder_input_ids=ids(2, 3)).logits
    model.save_pretrained(tmp_path)
    loaded, report = loader.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    assert type(loaded) is Qwen3ForSeq2SeqLM
    assert not any(report.values()), report
    torch.testing.assert_close(loaded(ids(2, 4), decoder_input_ids=ids(2, 3)).logits, expected, rtol=0, atol=0)
    for member in (loaded.encoder.embed_tokens, loaded.decoder.embed_tokens):
        assert member.weight is loaded.shared.weight
    assert (loaded.lm_head.weight is loaded.shared.weight) is tied
    assert len({"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"} & _stored(tmp_path)) == 1


def test_frequencies_survive_construction_on_the_meta_device(make_model: Any, tmp_path: Path) -> None:
    model = make_model()
    model.save_pretrained(tmp_path)
    loaded = Qwen3ForSeq2SeqLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    for stack in (loaded.encoder, loaded.decoder):
        frequencies = stack.rotary_emb.inv_freq
        assert frequencies.dtype == torch.float32
        torch.testing.assert_close(frequencies, model.encoder.rotary_emb.inv_freq, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_changing_the_models_dtype_leaves_the_frequencies_alone(make_model: Any, dtype: torch.dtype) -> None:
    model = make_model()
    expected = model.decoder.rotary_emb.inv_freq.clone()
    model.to(dtype)
    torch.testing.assert_close(model.decoder.rotary_emb.inv_freq, expected, rtol=0, atol=0)


def test_config_on_disk_keeps_what_the_model_needs(make_model: Any, tmp_path: Path) -> None:
    make_model(rotate_encoder_keys=False).save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["rope_parameters"] == {"rope_type": "default", "rope_theta": 50_000.0}
    assert stored["rotate_encoder_keys"] is False and stored["decoder_start_token_id"] == 3


def test_resizing_the_embeddings_keeps_every_tie(make_model: Any) -> None:
    model = make_model()
    before = model.shared.weight.detach().clone()
    model.resize_token_embeddings(101, mean_resizing=False)
    members = [model.shared, model.encoder.embed_tokens, model.decoder.embed_tokens, model.lm_head]
    assert len({id(member.weight) for member in members}) == 1
    assert tuple(model.lm_head.weight.shape) == (101, 40) and model.config.vocab_size == 101
    torch.testing.assert_close(model.shared.weight[:97], before, rtol=0, atol=0)
    model(torch.tensor([[100]]), decoder_input_ids=torch.tensor([[100]]))
