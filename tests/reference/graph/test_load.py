"""A model comes back from a folder as it was written, with the parameters that no folder has as numbers of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import CONFIG_MAPPING, PreTrainedConfig

from qwen3_golden import ParityError
from qwen3_reference.graph.load import load, model_class
from qwen3_reference.graph.tiny import tiny_inputs, tiny_model

POSITIONS = "model.encoder.embed_positions.weight"


def test_parameters_that_are_never_saved_are_buffers_with_the_same_numbers(tmp_path: Path) -> None:
    model = tiny_model("marian")
    assert POSITIONS in model._keys_to_ignore_on_save and POSITIONS in dict(model.named_parameters())
    model.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    buffers = dict(loaded.named_buffers())
    assert POSITIONS in buffers and POSITIONS not in dict(loaded.named_parameters())
    sinusoids = buffers[POSITIONS]
    torch.testing.assert_close(sinusoids[1, :2], torch.sin(1 / 10000 ** (torch.arange(2) / 12)).float())
    assert POSITIONS not in loaded.state_dict()
    with torch.no_grad():
        assert torch.isfinite(loaded(**tiny_inputs(loaded, 1)[0]).logits).all()


def test_a_size_of_each_layer_is_read_back(tmp_path: Path) -> None:
    model = tiny_model("gemma3n_text")
    assert isinstance(model.config.intermediate_size, list)
    model.save_pretrained(tmp_path)
    assert load(tmp_path).config.intermediate_size == model.config.intermediate_size


@pytest.mark.parametrize("family", ["whisper", "musicgen", "pop2piano"])
def test_an_encoder_decoder_is_whole_and_not_its_decoder(family: str) -> None:
    assert model_class(CONFIG_MAPPING[family]()).__name__.endswith("ForConditionalGeneration")


def test_a_part_that_transformers_has_no_table_for_is_a_class_of_its_own_file() -> None:
    """With a head where there is one; a checkpoint of it says the class, which `transformers` itself may not export."""
    config = CONFIG_MAPPING["blip_text_model"]()
    assert model_class(config).__name__ == "BlipTextLMHeadModel"
    config.architectures = ["BlipTextModel"]
    assert model_class(config).__name__ == "BlipTextModel"
    with pytest.raises(ParityError, match="transformers has no model for this configuration"):
        model_class(PreTrainedConfig())
