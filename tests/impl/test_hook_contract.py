"""What somebody who hooks the modules relies on: every named module is called, with the documented tensors."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "q_norm", "k_norm"]
LAYER = ["input_layernorm", "ATTN", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


@pytest.fixture
def calls(make_model: Any) -> Any:
    """A model and, for every module call in order, `(name, inputs, output)`."""
    model = make_model()
    log: list[tuple[str, tuple[Any, ...], Any]] = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda _, inputs, output, name=name: log.append((name, inputs, output)))
    return model, log


def _layer_calls(stack: str, attention: str, layer: int, memory: bool) -> list[str]:
    prefix = f"{stack}.layers.{layer}."
    heads = [*PROJECTIONS, *(["k_proj", "v_proj", "k_norm"] if memory else []), "o_proj"]
    inner = [f"{attention}.{name}" for name in heads]
    return [prefix + name for entry in LAYER for name in (inner if entry == "ATTN" else [entry])]


@torch.no_grad()
def test_modules_are_called_in_network_order_and_the_encoder_half_only_once(calls: Any, ids: Any) -> None:
    model, log = calls
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    named = {"mlp.act_fn", "self_attn", "merged_attn"}
    for step in range(2):
        log.clear()
        memory = model.encoder(ids(1, 4)).last_hidden_state
        assert [n for n, *_ in log if n.startswith("encoder.layers.0.") and n.split(".", 3)[3] not in named][
            :-1
        ] == _layer_calls("encoder", "self_attn", 0, memory=False)
        log.clear()
        model.decoder(ids(1, 2), memory, past_key_values=cache)
        inside = [n for n, *_ in log if n.startswith("decoder.layers.1.") and n.split(".", 3)[3] not in named]
        assert inside[:-1] == _layer_calls("decoder", "merged_attn", 1, memory=step == 0)
        assert [n for n, *_ in log].count("decoder.rotary_emb") == (2 if step == 0 else 1)
        assert {"decoder.embed_tokens", "decoder.norm", "decoder.layers.1"} <= {n for n, *_ in log}


@torch.no_grad()
def test_unrotated_model_never_asks_for_the_encoders_tables(make_model: Any, ids: Any) -> None:
    model = make_model(rotate_encoder_keys=False)
    seen: list[Any] = []
    model.decoder.rotary_emb.register_forward_hook(lambda _, inputs, output: seen.append(inputs[1]))
    model.decoder(ids(2, 3), torch.ones(2, 4, 40))
    assert [tuple(positions.shape) for positions in seen] == [(2, 3)]


@torch.no_grad()
def test_rotary_embedding_gets_the_stream_and_positions_of_every_row(calls: Any, ids: Any) -> None:
    model, log = calls
    model(ids(2, 4), decoder_input_ids=ids(2, 3))
    tables = [(name, inputs, output) for name, inputs, output in log if name.endswith("rotary_emb")]
    assert [name for name, *_ in tables] == ["encoder.rotary_emb", "decoder.rotary_emb", "decoder.rotary_emb"]
    for (_, inputs, output), length in zip(tables, (4, 3, 4), strict=True):
        assert tuple(inputs[1].shape) == (2, length)
        assert [tuple(table.shape) for table in output] == [(2, length, 10)] * 2


@torch.no_grad()
@pytest.mark.parametrize(("stack", "attention"), [("encoder", "self_attn"), ("decoder", "merged_attn")])
def test_tensors_between_the_modules_are_the_documented_ones(calls: Any, ids: Any, stack: str, attention: str) -> None:
    model, log = calls
    model(ids(2, 4), decoder_input_ids=ids(2, 3))
    first = {}
    for name, inputs, output in log:
        first.setdefault(name, (inputs, output))
    prefix = f"{stack}.layers.1"
    stream = first[prefix][0][0]
    previous = first[f"{stack}.layers.0"][1][0]
    assert stream is previous
    residual = first[f"{prefix}.post_attention_layernorm"][0][0]
    torch.testing.assert_close(residual, stream + first[f"{prefix}.{attention}.o_proj"][1], rtol=0, atol=0)
    gate, up = first[f"{prefix}.mlp.gate_proj"][1], first[f"{prefix}.mlp.up_proj"][1]
    act = first[f"{prefix}.mlp.down_proj"][0][0]
    torch.testing.assert_close(act, torch.nn.functional.silu(gate) * up, rtol=0, atol=0)
    output = first[prefix][1][0]
    torch.testing.assert_close(output, residual + first[f"{prefix}.mlp.down_proj"][1], rtol=0, atol=0)
    length = 4 if stack == "encoder" else 3
    assert tuple(first[f"{prefix}.{attention}.q_norm"][0][0].shape) == (2, length, 6, 10)
    assert tuple(first[f"{prefix}.{attention}.k_norm"][0][0].shape) == (2, length, 2, 10)


@torch.no_grad()
def test_hooks_leave_the_logits_bits_unchanged(make_model: Any, calls: Any, ids: Any) -> None:
    hooked, _ = calls
    expected = make_model()(ids(2, 4), decoder_input_ids=ids(2, 3)).logits
    torch.testing.assert_close(hooked(ids(2, 4), decoder_input_ids=ids(2, 3)).logits, expected, rtol=0, atol=0)


@torch.no_grad()
def test_cache_update_gets_rotated_keys_with_the_decoders_first(make_model: Any, ids: Any) -> None:
    model = make_model()
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    model(ids(2, 4), decoder_input_ids=ids(2, 3), past_key_values=cache)
    assert tuple(cache.self_attention_cache.layers[0].keys.shape) == (2, 2, 3, 10)
    assert tuple(cache.cross_attention_cache.layers[0].keys.shape) == (2, 2, 4, 10)
    assert cache.get_seq_length() == 3
