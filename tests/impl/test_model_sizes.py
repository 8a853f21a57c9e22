"""Every published model at its full size, on the meta device: the encoder–decoder has the names and shapes it must."""

from functools import cache
from math import prod

import pytest
import torch

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM
from qwen3_encdec.weights.mapping import pairs
from qwen3_golden.models import model, models
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.weights import expected_tensors

NAMES = [row.name for row in models()]
SENTINELS = 100
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
Shape = tuple[int, ...]


@cache
def ours(name: str) -> Qwen3ForSeq2SeqLM:
    source = config_json(model(name).config, "bfloat16")
    with torch.device("meta"):
        return Qwen3ForSeq2SeqLM(Qwen3EncoderDecoderConfig.from_qwen3_config(source, SENTINELS))


def checkpoint(name: str) -> dict[str, Shape]:
    """The names and shapes of a published checkpoint, a tied head included."""
    shapes = expected_tensors(model(name).config)
    return {**shapes, HEAD: shapes[EMBEDDING]}


def with_sentinels(name: str, shape: Shape) -> Shape:
    return (shape[0] + SENTINELS, shape[1]) if name in (EMBEDDING, HEAD) else shape


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_mapped_from_a_tensor_of_its_shape(name: str) -> None:
    shapes = {key: tuple(value.shape) for key, value in ours(name).named_parameters(remove_duplicate=False)}
    stored = checkpoint(name)
    mapped = {pair.target: with_sentinels(pair.source, stored[pair.source]) for pair in pairs(ours(name).config)}
    shared = dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), mapped["shared.weight"])
    assert shapes == {**mapped, **shared}


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_of_the_checkpoint_is_mapped_to_both_stacks(name: str) -> None:
    stacks: dict[str, list[str]] = {}
    for pair in pairs(ours(name).config):
        stacks.setdefault(pair.source, []).append(pair.stack)
    assert stacks.keys() == checkpoint(name).keys()
    assert stacks.pop(HEAD) == ["decoder"]
    assert {tuple(targets) for targets in stacks.values()} == {("encoder", "decoder")}


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_parameters_follows_from_the_models(name: str) -> None:
    row = model(name)
    embedding = prod(checkpoint(name)[EMBEDDING])
    untied = not row.config.tie_word_embeddings
    inner = row.parameters - embedding - (embedding if untied else 0)
    extended = embedding + SENTINELS * row.config.hidden_size
    assert sum(value.numel() for value in ours(name).parameters()) == 2 * inner + (2 if untied else 1) * extended


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_has_the_models_numbers(name: str) -> None:
    expected, config = model(name).config, ours(name).config
    same = (
        *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
        *("head_dim", "rms_norm_eps", "rope_theta", "max_position_embeddings", "hidden_act", "attention_bias"),
        *("attention_out_bias", "use_qk_norm", "tie_word_embeddings"),
    )
    assert {key: getattr(config, key) for key in same} == {key: getattr(expected, key) for key in same}
    assert config.vocab_size == expected.vocab_size + SENTINELS
    assert list(config.layer_types) == list(expected.layer_types) and config.sliding_window is None
    assert config.rope_parameters["rope_type"] == (expected.rope_scaling.rope_type or "default")


def test_nothing_of_a_full_size_is_in_memory() -> None:
    for name in NAMES:
        assert {value.device.type for value in ours(name).parameters()} == {"meta"}
