"""The oracles against second witnesses: other ways to get the same numbers out of Hugging Face."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.t5gemma2.configuration_t5gemma2 import T5Gemma2TextConfig
from transformers.models.t5gemma2.modeling_t5gemma2 import T5Gemma2MergedAttention

from qwen3_golden import Array
from qwen3_reference.caches import CACHE
from qwen3_reference.capture.merged_cache import Memory, MergedCache
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.run import additive, generate_greedy, merged_masks, run_reference
from qwen3_reference.cases.networks import CASES, case
from qwen3_spec import ops

Load = Callable[..., Reference]
Inputs = Callable[[str], dict[str, Array]]
ENCODERS = [c.name for c in CASES if c.name.startswith("encoder/")]


@pytest.mark.parametrize("name", ENCODERS)
def test_the_encoder_equals_explicit_masks_bit_for_bit(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    encoder, given = reference_of(name, attention="eager").encoder, inputs_of(name)
    config = encoder.config
    windows = {"full_attention": None, "sliding_attention": config.sliding_window}
    mask = given["input.encoder_attention_mask"]
    explicit = {
        kind: additive(torch.from_numpy(ops.mask.encoder_mask(mask, windows[kind])), torch.float32)[:, None]
        for kind in set(config.layer_types)
    }
    with torch.no_grad():
        output = encoder(
            input_ids=torch.from_numpy(given["input.encoder_input_ids"]),
            attention_mask=explicit,
            position_ids=torch.from_numpy(given["input.encoder_position_ids"]),
        ).last_hidden_state
    taps = taps_of(reference_of(name), given, ())
    assert torch.equal(taps["encoder.norm", 0], output)


def test_a_causal_encoder_would_be_noticed(reference_of: Load, inputs_of: Inputs, taps_of: Any) -> None:
    name = "encoder/ragged"
    encoder = reference_of(name).encoder
    before = taps_of(reference_of(name), inputs_of(name), ())["encoder.norm", 0]
    encoder.config.is_causal = True
    try:
        after = taps_of(reference_of(name), inputs_of(name), ())["encoder.norm", 0]
    finally:
        encoder.config.is_causal = False
    assert not torch.equal(before, after)


@pytest.mark.parametrize("name", ["encdec/ragged", "encdec/window", "encdec/qwen2"])
def test_rotated_merged_attention_is_hf_attention_on_the_concatenated_sequence(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    reference, given = reference_of(name), inputs_of(name)
    taps = taps_of(reference, given, (sum(case(name).steps),))
    memory, site = taps["encoder.norm", 0], "merged_attn"
    config = reference.decoder.config
    for index, layer in enumerate(reference.decoder.model.layers):
        own = taps[f"decoder.layers.{index}.input_layernorm", 0]
        length, total = own.shape[1], own.shape[1] + memory.shape[1]
        mask = torch.zeros(own.shape[0], total, total, dtype=torch.bool)
        mask[:, :length] = taps[f"decoder.layers.{index}.{site}.mask", 0]
        tables = tuple(
            torch.cat([taps[f"decoder.{table}", 0], taps[f"decoder.encoder_{table}", 0]], dim=1)
            for table in ("cos", "sin")
        )
        config._attn_implementation, kept = "eager", config._attn_implementation
        try:
            with torch.no_grad():
                states = torch.cat([own, memory], dim=1)
                output, _ = layer.self_attn(states, tables, additive(mask, torch.float32)[:, None])
        finally:
            config._attn_implementation = kept
        expected = taps[f"decoder.layers.{index}.{site}.o_proj", 0]
        shown = mask[:, :length].any(-1)
        scale = expected.pow(2).mean().sqrt()
        assert (output[:, :length] - expected)[shown].abs().max() < 5e-6 * scale
        assert (output[:, length:].shape[1], output.shape[1]) == (memory.shape[1], total)


def _t5gemma2(attention: Any, config: Any) -> T5Gemma2MergedAttention:
    """HF's merged attention with a Qwen3 layer's weights: its norms are stored minus one."""
    wider = config.num_attention_heads * config.head_dim  # its validation wants a multiple of the heads
    t5gemma2 = T5Gemma2TextConfig(
        hidden_size=wider,
        num_hidden_layers=1,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        query_pre_attn_scalar=config.head_dim,
        rms_norm_eps=config.rms_norm_eps,
        attention_bias=False,
        attn_logit_softcapping=None,
        layer_types=["full_attention"],
    )
    t5gemma2.hidden_size = config.hidden_size
    t5gemma2._attn_implementation = "eager"
    theirs = T5Gemma2MergedAttention(t5gemma2, 0).eval()
    state = attention.state_dict()
    theirs.load_state_dict({n: v - 1 if "norm" in n else v for n, v in state.items()}, strict=True)
    return theirs


def test_unrotated_merged_attention_is_t5gemma2s_bit_for_bit(
    reference_of: Load, inputs_of: Inputs, taps_of: Any
) -> None:
    name = "encdec/unrotated"
    reference = reference_of(name)
    taps = taps_of(reference, inputs_of(name), case(name).steps[:1])
    for index, layer in enumerate(reference.decoder.model.layers):
        site = f"decoder.layers.{index}.merged_attn."
        theirs = _t5gemma2(layer.self_attn, reference.decoder.config)
        with torch.no_grad():
            output, own, cross = theirs(
                taps[f"decoder.layers.{index}.input_layernorm", 0],
                (taps["decoder.cos", 0], taps["decoder.sin", 0]),
                additive(taps[f"{site}mask", 0], torch.float32)[:, None],
                taps["encoder.norm", 0],
            )
        assert torch.equal(torch.cat([own, cross], dim=-1), taps[f"{site}probs", 0])
        assert torch.equal(output, taps[f"{site}o_proj", 0])


def test_rotating_the_keys_would_be_noticed(reference_of: Load, inputs_of: Inputs, taps_of: Any) -> None:
    unrotated = reference_of("encdec/unrotated")
    rotated = Reference(unrotated.encoder, unrotated.decoder, rotate_encoder_keys=True)
    given = inputs_of("encdec/unrotated")
    a, b = (taps_of(one, given, (6,))["logits", 0] for one in (unrotated, rotated))
    assert (a - b).abs().max() > 0.1


@pytest.mark.parametrize("name", ["decoder/ragged_decode", "decoder/window_chunks", "decoder/window_even"])
def test_without_an_encoder_the_merged_decoder_is_plain_hf_bit_for_bit(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    given, definition = inputs_of(name), case(name)
    decoder = reference_of(name, attention="eager").decoder
    taps = taps_of(reference_of(name), given, definition.steps)
    ids, mask, positions = (
        torch.from_numpy(given[f"input.decoder_{part}"]) for part in ("input_ids", "attention_mask", "position_ids")
    )
    from transformers.cache_utils import DynamicCache

    cache, end = DynamicCache(), 0
    for step, length in enumerate(definition.steps):
        start, end = end, end + length
        with torch.no_grad():
            logits = decoder(
                input_ids=ids[:, start:end],
                attention_mask=mask[:, :end].long(),
                position_ids=positions[:, start:end],
                use_cache=True,
                **{CACHE: cache},
            ).logits
        assert torch.equal(taps["logits", step], logits)


@pytest.mark.parametrize("name", ["encdec/ragged", "encdec/unrotated", "encdec/window", "encdec/qwen2"])
def test_steps_and_chunks_agree_with_one_forward(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    given, steps = inputs_of(name), case(name).steps
    stepped = taps_of(reference_of(name), given, steps)
    whole = taps_of(reference_of(name), given, (sum(steps),))["logits", 0]
    parts = torch.cat([stepped["logits", step] for step in range(len(steps))], dim=1)
    real = torch.from_numpy(given["input.decoder_attention_mask"])
    assert (whole - parts)[real].abs().max() < 2e-5 * whole.abs().max()


@pytest.mark.parametrize("name", ["encdec/ragged", "encdec/window", "decoder/window_chunks"])
def test_masks_are_those_of_the_specification(reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str) -> None:
    given, steps = inputs_of(name), case(name).steps
    taps = taps_of(reference_of(name), given, steps)
    config, end = reference_of(name).decoder.config, 0
    for step, length in enumerate(steps):
        end += length
        for index, kind in enumerate(config.layer_types):
            window = config.sliding_window if kind == "sliding_attention" else None
            own, theirs = given["input.decoder_attention_mask"][:, :end], given.get("input.encoder_attention_mask")
            expected = ops.mask.merged(own, theirs, length, window)
            actual = taps[f"decoder.layers.{index}.merged_attn.mask", step].numpy()
            shown = own[:, -length:]
            assert np.array_equal(actual[shown], expected[shown])


def test_a_request_does_not_change_the_next_one(reference_of: Load, inputs_of: Inputs, taps_of: Any) -> None:
    name = "encdec/second_request"
    reference, given, steps = reference_of(name), inputs_of(name), case(name).steps
    first = taps_of(reference, given, steps)
    run_reference(reference, inputs_of("encdec/window"), case("encdec/window").steps, lambda *_: None)
    assert all(torch.equal(value, first[key]) for key, value in taps_of(reference, given, steps).items())


def test_the_cache_counts_the_decoders_tokens_alone(reference_of: Load) -> None:
    decoder = reference_of("encdec/window").decoder
    hidden = torch.randn(1, 9, 40)
    cache = MergedCache([layer.self_attn for layer in decoder.model.layers], Memory(hidden, None))
    ids, mask = torch.ones(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.bool)
    built = merged_masks(decoder, cache, ids, mask, torch.ones(1, 9, dtype=torch.bool))
    with torch.no_grad():
        decoder(input_ids=ids, attention_mask=built, position_ids=torch.arange(4)[None], **{CACHE: cache})
    assert cache.get_seq_length() == 4
    assert {k: tuple(v.shape) for k, v in built.items()} == dict.fromkeys(built, (1, 1, 4, 13))
    assert set(built) == {"full_attention", "sliding_attention"}


@pytest.mark.parametrize("name", ["decoder/generation", "decoder/ragged_decode"])
def test_greedy_is_what_hf_generates(reference_of: Load, inputs_of: Inputs, name: str) -> None:
    given = {key: value[[0, -1]] for key, value in inputs_of(name).items()}  # no right padding: generate needs that
    reference = reference_of(name)
    prompt = case(name).steps[0]
    ids, margin = generate_greedy(reference, given, prompt, 8)
    plain = reference_of(name, attention="eager").decoder
    generated = plain.generate(
        input_ids=torch.from_numpy(given["input.decoder_input_ids"][:, :prompt]),
        attention_mask=torch.from_numpy(given["input.decoder_attention_mask"][:, :prompt]).long(),
        max_new_tokens=8,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert generated[:, prompt:].tolist() == ids.tolist()
    assert margin > 0


@pytest.mark.parametrize("name", ["encdec/second_request", "decoder/generation"])
def test_greedy_is_the_argmax_of_one_forward_over_prompt_and_answer(
    reference_of: Load, inputs_of: Inputs, taps_of: Any, name: str
) -> None:
    given, prompt, new = inputs_of(name), case(name).steps[0], case(name).max_new_tokens
    ids, margin = generate_greedy(reference_of(name), given, prompt, new)
    whole = {key: value for key, value in given.items() if "encoder" in key}
    whole["input.decoder_input_ids"] = np.concatenate([given["input.decoder_input_ids"][:, :prompt], ids], axis=1)
    mask = given["input.decoder_attention_mask"][:, :prompt]
    whole["input.decoder_attention_mask"] = np.concatenate([mask, np.ones(ids.shape, bool)], axis=1)
    whole["input.decoder_position_ids"] = ops.position_ids.counted(whole["input.decoder_attention_mask"])
    logits = taps_of(reference_of(name), whole, (prompt + new,))["logits", 0]
    assert logits[:, prompt - 1 : -1].argmax(-1).tolist() == ids.tolist()
    assert min(len(set(row)) for row in ids.tolist()) >= 8
    assert margin > 0.05


def test_positions_beyond_float32_tables_are_given_as_they_are(inputs_of: Inputs) -> None:
    assert inputs_of("long/position_32768")["input.decoder_position_ids"].max() == 32772
