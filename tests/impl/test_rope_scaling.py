"""YaRN: the numbers of Hugging Face's rotary module bit for bit, read from every layout, refused when impossible."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding as HFRotaryEmbedding

from qwen3_encdec import (
    Qwen3Encoder,
    Qwen3EncoderAttention,
    Qwen3EncoderDecoderConfig,
    Qwen3ForSeq2SeqLM,
    Qwen3MergedAttention,
    Qwen3RotaryEmbedding,
)
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3

YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
FAR = torch.tensor([[0, 1, 2, 1000, 32767, 32768, 100_000, 131_071]])
SOURCE: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 97,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131_072,
}


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return actual.dtype == expected.dtype and torch.equal(actual, expected)


optional = st.none() | st.floats(0.05, 3.0)


@st.composite
def scalings(draw: st.DrawFn) -> dict[str, Any]:
    """YaRN dictionaries, each key there or not."""
    slow = draw(st.none() | st.floats(0.1, 8.0))
    found = {
        "rope_type": "yarn",
        "rope_theta": draw(st.sampled_from([10_000, 250_000.0, 1e6, 5e6]) | st.floats(2.0, 1e8)),
        "factor": draw(st.none() | st.integers(1, 64) | st.floats(1.0, 64.0)),
        "original_max_position_embeddings": draw(st.sampled_from([8, 64, 4096, 32_768]) | st.integers(1, 300_000)),
    }
    keys = {
        "attention_factor": draw(optional),
        "mscale": draw(optional),
        "mscale_all_dim": draw(optional),
        "beta_fast": draw(st.none() | st.integers(9, 64) | st.floats(1.0 if slow is None else slow, 64.0)),
        "beta_slow": slow,
        "truncate": draw(st.booleans()),
    }
    said = {
        name: value
        for name, value in keys.items()
        if value is not None and (name == "beta_slow" or draw(st.booleans()))
    }
    return found | said  # beta_fast was drawn above this beta_slow, and may lie below the default of 1


@settings(max_examples=300)
@given(scalings(), st.integers(1, 64).map(lambda pairs: 2 * pairs))
def test_frequencies_tables_and_attention_factor_have_hugging_faces_bits(parameters: dict[str, Any], dim: int) -> None:
    length = 300_000
    hf = HFRotaryEmbedding(
        Qwen3Config(head_dim=dim, max_position_embeddings=length, rope_parameters=copy.deepcopy(parameters))
    )
    ours = Qwen3RotaryEmbedding(dim, length, rope_parameters=parameters)
    assert ours.attention_factor == hf.attention_scaling
    assert same_bits(ours.inv_freq, hf.inv_freq)
    for actual, expected in zip(ours(torch.zeros(1), FAR), hf(torch.zeros(1), FAR), strict=True):
        assert same_bits(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_attention_factor_is_applied_before_the_cast(dtype: torch.dtype) -> None:
    parameters = YARN | {"rope_theta": 1e6, "attention_factor": 1.3}
    hf = HFRotaryEmbedding(Qwen3Config(head_dim=16, max_position_embeddings=131_072, rope_parameters=dict(parameters)))
    x = torch.zeros(1, dtype=dtype)
    for actual, expected in zip(Qwen3RotaryEmbedding(16, rope_parameters=parameters)(x, FAR), hf(x, FAR), strict=True):
        assert same_bits(actual, expected)


LAYOUTS: dict[str, dict[str, Any]] = {
    "rope_scaling with rope_type": {"rope_theta": 1e6, "rope_scaling": YARN},
    "rope_scaling with type": {
        "rope_theta": 1e6,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    },
    "both spellings": {"rope_theta": 1e6, "rope_scaling": YARN | {"type": "yarn"}},
    "rope_parameters": {"rope_parameters": YARN | {"rope_theta": 1e6}},
    "factor from the lengths": {"rope_parameters": YARN | {"rope_theta": 1e6, "factor": None}},
    "whole numbers": {"rope_theta": 1_000_000, "rope_scaling": YARN | {"factor": 4}},
    "the length at the top": {
        "rope_theta": 1e6,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "original_max_position_embeddings": 32768,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_resolved_numbers(layout: str) -> None:
    config = Qwen3EncoderDecoderConfig.from_qwen3_config(SOURCE | LAYOUTS[layout])
    assert config.rope_parameters == YARN | {
        "rope_theta": 1e6,
        "attention_factor": 1.1386294361119891,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": True,
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_hugging_faces_frequencies(layout: str) -> None:
    hf = HFRotaryEmbedding(Qwen3Config.from_dict(copy.deepcopy(SOURCE | LAYOUTS[layout])))
    config = Qwen3EncoderDecoderConfig.from_qwen3_config(SOURCE | LAYOUTS[layout])
    ours = Qwen3RotaryEmbedding(config.head_dim, rope_parameters=config.rope_parameters)
    assert same_bits(ours.inv_freq, hf.inv_freq) and ours.attention_factor == hf.attention_scaling


def test_a_config_object_of_hugging_faces_is_read_too() -> None:
    hf = Qwen3Config.from_dict(copy.deepcopy(SOURCE | LAYOUTS["rope_scaling with rope_type"]))
    assert Qwen3EncoderDecoderConfig.from_qwen3_config(hf).rope["factor"] == 4.0


def test_mscale_alone_is_not_read_as_in_hugging_face() -> None:
    one = Qwen3RotaryEmbedding(8, rope_parameters=YARN | {"mscale": 0.5})
    assert one.attention_factor == Qwen3RotaryEmbedding(8, rope_parameters=YARN).attention_factor


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    **{
        kind: ({"rope_scaling": {"rope_type": kind, "factor": 2.0}}, [f"rope_scaling['rope_type'] = '{kind}'"])
        for kind in ("linear", "dynamic", "llama3", "longrope", "su")
    },
    "type linear": ({"rope_scaling": {"type": "linear", "factor": 2.0}}, ["rope_scaling['type'] = 'linear'"]),
    "two types": ({"rope_scaling": YARN | {"type": "linear"}}, ["'rope_type' 'yarn'", "'type' 'linear'"]),
    "no length": (
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        ["['original_max_position_embeddings'] = None", "honest default"],
    ),
    "no factor": (
        {"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 8}},
        ["rope_scaling['factor'] is missing"],
    ),
    "two lengths": ({"rope_scaling": YARN, "original_max_position_embeddings": 9}, ["32768", "= 9", "disagree"]),
    "two scalings": (
        {"rope_scaling": YARN, "rope_parameters": {"rope_type": "default"}},
        ["rope_parameters = None", "rope_scaling = YarnScaling(factor=4.0", "disagree"],
    ),
    "factor below 1": ({"rope_scaling": YARN | {"factor": 0.5}}, ["['factor'] = 0.5", "at least 1"]),
    "factor as text": ({"rope_scaling": YARN | {"factor": "4"}}, ["['factor'] = '4'"]),
    "infinite factor": ({"rope_scaling": YARN | {"factor": float("inf")}}, ["['factor'] = inf"]),
    "attention factor 0": ({"rope_scaling": YARN | {"attention_factor": 0.0}}, ["['attention_factor'] = 0.0"]),
    "NaN": ({"rope_scaling": YARN | {"beta_fast": float("nan")}}, ["['beta_fast'] = nan"]),
    "betas": ({"rope_scaling": YARN | {"beta_fast": 1, "beta_slow": 32}}, ["beta_fast", "beta_slow = 32"]),
    "unknown key": ({"rope_scaling": YARN | {"low_freq_factor": 1.0}}, ["'yarn'", "low_freq_factor"]),
    "yarn's key on plain RoPE": ({"rope_parameters": {"factor": 4.0}}, ["'default'", "factor"]),
    "part of the head": ({"rope_scaling": YARN | {"partial_rotary_factor": 0.5}}, ["partial_rotary_factor'] = 0.5"]),
    "part of the head, at the top": ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor = 0.5"]),
    "theta 1": ({"rope_theta": 1.0, "rope_scaling": YARN}, ["rope_theta = 1.0", "above 1"]),
    "no dictionary": ({"rope_scaling": "yarn"}, ["rope_scaling = 'yarn'", "dictionary"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_scaling_that_is_not_understood_is_refused_by_name(what: str) -> None:
    fields, named = REFUSED[what]
    with pytest.raises(ValueError) as caught:
        Qwen3EncoderDecoderConfig.from_qwen3_config(SOURCE | {"rope_theta": 1e6} | fields)
    assert all(text in str(caught.value) for text in named), caught.value


def test_yarn_survives_saving_and_loading(tmp_path: Any, make_config: Callable[..., Any]) -> None:
    config = make_config(rope_parameters=YARN | {"mscale": 0.7, "mscale_all_dim": 0.3, "truncate": False})
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert loaded.rope_parameters == config.rope_parameters and loaded.rope["factor"] == 4.0


def test_another_theta_keeps_the_scaling(make_config: Callable[..., Any]) -> None:
    config = make_config(rope_parameters=YARN)
    config.rope_theta = 7e5
    assert (config.rope["rope_type"], config.rope["factor"], config.rope_theta) == ("yarn", 4.0, 7e5)


def test_both_stacks_turn_by_the_scaled_tables(make_config: Callable[..., Any]) -> None:
    config = make_config(rope_parameters=YARN | {"attention_factor": 1.3})
    expected = Qwen3RotaryEmbedding(config.head_dim, rope_parameters=config.rope_parameters)
    model = Qwen3ForSeq2SeqLM(config)
    for stack in (model.encoder, model.decoder):
        assert same_bits(stack.rotary_emb.inv_freq, expected.inv_freq)
        assert stack.rotary_emb.attention_factor == 1.3


def test_a_model_made_on_the_meta_device_gets_the_scaled_frequencies(
    make_model: Callable[..., Any], tmp_path: Any
) -> None:
    model = make_model(rope_parameters=YARN)
    model.save_pretrained(tmp_path)
    loaded = Qwen3ForSeq2SeqLM.from_pretrained(tmp_path)
    for stack in (loaded.encoder, loaded.decoder):
        assert same_bits(stack.rotary_emb.inv_freq, model.encoder.rotary_emb.inv_freq)
    rotary = Qwen3RotaryEmbedding(10, rope_parameters=YARN | {"rope_theta": 50_000.0}).to("meta")
    rotary.reset_inv_freq(torch.device("cpu"))
    assert same_bits(rotary.inv_freq, model.encoder.rotary_emb.inv_freq)


def test_half_precision_does_not_round_the_scaled_frequencies() -> None:
    rotary = Qwen3RotaryEmbedding(16, rope_parameters=YARN)
    before = rotary.inv_freq.clone()
    assert same_bits(rotary.to(torch.bfloat16).inv_freq, before)


POSITIONS = torch.arange(5)[None] + 40_000


@torch.no_grad()
def test_an_encoder_attention_alone_makes_the_same_tables_as_its_stack(
    make_config: Callable[..., Any], make_loud: Callable[..., None]
) -> None:
    config = make_config(rope_parameters=YARN | {"attention_factor": 1.3})
    attention = Qwen3EncoderAttention(config, 0).eval()
    make_loud(attention, 5)
    x = torch.randn(1, 5, 40, generator=torch.Generator().manual_seed(1))
    tables = Qwen3RotaryEmbedding(config.head_dim, rope_parameters=config.rope_parameters)(x, POSITIONS)
    assert same_bits(attention(x, position_ids=POSITIONS)[0], attention(x, position_embeddings=tables)[0])


@torch.no_grad()
def test_a_merged_attention_alone_makes_the_same_tables_as_its_stack(
    make_config: Callable[..., Any], make_loud: Callable[..., None]
) -> None:
    config = make_config(rope_parameters=YARN | {"attention_factor": 1.3})
    attention = Qwen3MergedAttention(config, 0).eval()
    make_loud(attention, 5)
    x, memory = torch.randn(2, 1, 5, 40, generator=torch.Generator().manual_seed(1))
    tables = Qwen3RotaryEmbedding(config.head_dim, rope_parameters=config.rope_parameters)(x, POSITIONS)
    own = attention(x, memory, decoder_position_ids=POSITIONS, encoder_position_ids=POSITIONS)[0]
    mask = attention._standalone_mask(x, 5, None, None, None)
    assert same_bits(
        own, attention(x, memory, mask=mask, position_embeddings=tables, encoder_position_embeddings=tables)[0]
    )


@torch.no_grad()
def test_a_loaded_checkpoint_gives_hugging_faces_logits_beyond_the_original_length(save_hf: Callable[..., Any]) -> None:
    hf, directory = save_hf(
        rope_parameters=YARN | {"rope_theta": 50_000.0, "attention_factor": 1.3}, max_position_embeddings=131_072
    )
    model = load_qwen3(directory).eval()
    tokens = torch.randint(5, 97, (2, 9), generator=torch.Generator().manual_seed(3))
    positions = torch.arange(9)[None].expand(2, 9) + 120_000
    expected = hf(input_ids=tokens, position_ids=positions).logits
    actual = model.lm_head(model.decoder(tokens, torch.zeros(2, 0, 40), position_ids=positions).last_hidden_state)
    torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-5)
    plain, _ = save_hf("plain", max_position_embeddings=131_072)
    assert not torch.allclose(expected, plain(input_ids=tokens, position_ids=positions).logits, atol=1e-2)


def test_the_encoder_alone_turns_by_the_scaled_tables_too(make_config: Callable[..., Any]) -> None:
    config = make_config(rope_parameters=YARN)
    plain = Qwen3Encoder(make_config())
    assert not torch.equal(Qwen3Encoder(config).rotary_emb.inv_freq, plain.rotary_emb.inv_freq)
