"""Decoding one row on the CPU: the modules' numbers in few steps, and the modules wherever they matter."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache, EncoderDecoderCache, Qwen3Config, Qwen3ForCausalLM

from qwen3_encdec import modeling_qwen3_decoder, one_row, plain_layers
from qwen3_encdec.caches import new_cache
from qwen3_encdec.norm import Qwen3RMSNorm

MODELS: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "qwen2": {"use_qk_norm": False, "attention_bias": True},
    "window": {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3},
    "unrotated": {"rotate_encoder_keys": False},
    "one head a group": {"num_key_value_heads": 6},
    "one group": {"num_key_value_heads": 1},
    "gelu": {"hidden_act": "gelu"},
}


class Quantized(torch.Tensor):
    """A weight as quantization libraries make them."""


ROUNDING = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
DTYPES = pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 3) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the modules were passed by, for every forward of the decoder."""
    found: list[bool] = []
    plain = one_row.decode_row

    def watched(*given: Any) -> Any:
        stream = plain(*given)
        found.append(stream is not None)
        return stream

    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", watched)
    return found


def steps(model: Any, count: int, cache: Any = None, length: int = 7, **masks: torch.Tensor) -> torch.Tensor:
    """Logits `[1, count, vocab]` of a prefill of two tokens and single ones behind it, without gradients."""
    memory, cache = drawn(1, length, 40, dtype=model.dtype), new_cache() if cache is None else cache
    target = torch.randint(3, 90, (1, count), generator=torch.Generator().manual_seed(8))
    logits = []
    with torch.no_grad():
        for part in target.split([2, *[1] * (count - 2)], dim=1):
            given = {"encoder_outputs": (memory,), "decoder_input_ids": part, "past_key_values": cache}
            logits.append(model(**given, use_cache=True, **masks).logits)
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize("name", MODELS)
def test_it_gives_the_modules_logits_and_cache(
    name: str, make_model: Any, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(attn_implementation="sdpa", **MODELS[name])
    ours, theirs = new_cache(), new_cache()
    actual = steps(model, 80, ours)  # over the end of the first buffer's spare slots
    assert taken == [False, *[True] * 64, False, *[True] * 13]
    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", lambda *given: None)
    torch.testing.assert_close(actual, steps(model, 80, theirs), rtol=1e-4, atol=1e-4)
    for a, b in zip(ours.self_attention_cache.layers, theirs.self_attention_cache.layers, strict=True):
        torch.testing.assert_close((a.keys, a.values), (b.keys, b.values), rtol=1e-4, atol=1e-4)


def test_it_sees_what_the_modules_see_under_a_mask(
    make_model: Any, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, mask = make_model(attn_implementation="sdpa"), torch.tensor([[0, 1, 1, 1, 1, 0, 0]])
    actual = steps(model, 6, attention_mask=mask)
    assert taken == [False, True, True, True, True]
    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", lambda *given: None)
    torch.testing.assert_close(actual, steps(model, 6, attention_mask=mask), rtol=1e-4, atol=1e-4)
    assert (actual - steps(model, 6)).abs().max() > 0.1


def test_a_mask_of_its_own_for_each_head_takes_the_modules(make_model: Any, taken: list[bool]) -> None:
    model, cache = make_model(attn_implementation="sdpa"), new_cache()
    steps(model, 4, cache)
    found = []
    for heads in (1, 6):
        seen = drawn(1, heads, 1, 7) > 0
        given = {"encoder_outputs": (drawn(1, 7, 40),), "decoder_input_ids": torch.tensor([[5]])}
        with torch.no_grad():
            found.append(model(**given, attention_mask=seen, past_key_values=copy.deepcopy(cache)).logits)
    assert taken[-2:] == [True, False] and (found[0] - found[1]).abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_in_half_precision_it_is_as_near_to_float32_as_the_modules(
    dtype: torch.dtype, make_model: Any, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(attn_implementation="sdpa").to(dtype)
    actual = steps(model, 12).float()
    assert sum(taken) == 10
    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", lambda *given: None)
    theirs, truth = steps(model, 12).float(), steps(copy.deepcopy(model).float(), 12)  # the truth is the modules' too
    error, their_error = ((x - truth).square().mean() for x in (actual, theirs))
    assert 0 < error <= 1.05 * their_error  # measured on three models: 1.000 to 1.015


class Operations(TorchDispatchMode):
    """Counts what torch is asked to do, views included."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_a_layer_takes_at_most_half_of_the_operations_of_hugging_faces(make_model: Any) -> None:
    counts: dict[str, list[int]] = {"ours": [], "hf": []}
    for layers in (2, 4):
        model = make_model(attn_implementation="sdpa", num_hidden_layers=layers)
        sizes = {name: getattr(model.config, name) for name in ("hidden_size", "intermediate_size", "head_dim")}
        heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": layers, "vocab_size": 97}
        hf = Qwen3ForCausalLM(Qwen3Config(**sizes, **heads, attn_implementation="sdpa")).eval()
        cache, past = new_cache(), DynamicCache(config=hf.config)
        steps(model, 4, cache)
        with torch.no_grad():
            hf(torch.tensor([[5, 6, 7]]), past_key_values=past)
            with Operations() as theirs:
                hf(torch.tensor([[5]]), past_key_values=past)
            given = {"encoder_outputs": (drawn(1, 7, 40),), "past_key_values": cache}
            with Operations() as ours:
                model(decoder_input_ids=torch.tensor([[5]]), **given)
        counts["ours"].append(ours.count)
        counts["hf"].append(theirs.count)
    ours_each, hf_each = ((four - two) / 2 for two, four in counts.values())
    assert 0 < 2 * ours_each <= hf_each


MODULES = [
    *("", "input_layernorm", "post_attention_layernorm", "mlp", "merged_attn"),
    *(f"merged_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"mlp.{name}" for name in ("gate_proj", "up_proj", "act_fn", "down_proj")),
]

FOR_THE_ENCODER = [f"merged_attn.{name}" for name in ("k_proj", "k_norm", "v_proj")]
"""What also runs once for the encoder's keys and values."""


@pytest.fixture
def model(make_model: Any) -> Any:
    return make_model(attn_implementation="sdpa")


def test_the_final_norm_is_called_when_it_is_watched(model: Any, taken: list[bool]) -> None:
    calls: list[nn.Module] = []
    model.decoder.norm.register_forward_hook(lambda module, *_: calls.append(module))
    steps(model, 4)
    assert len(calls) == 3 and not any(taken)


def test_every_module_of_a_layer_is_in_the_list(model: Any) -> None:
    assert sorted(MODULES) == sorted(name for name, _ in model.decoder.layers[1].named_modules())


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_is_watched_is_called(name: str, kind: str, model: Any, taken: list[bool]) -> None:
    calls: list[nn.Module] = []
    getattr(model.decoder.layers[1].get_submodule(name), kind)(lambda module, *_: calls.append(module))
    steps(model, 4)
    assert len(calls) == 3 + (name in FOR_THE_ENCODER) and not any(taken)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_with_a_forward_of_its_own_is_called(name: str, model: Any, taken: list[bool]) -> None:
    module, calls = model.decoder.layers[1].get_submodule(name), []
    plain = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return plain(*args, **kwargs)

    module.forward = forward
    steps(model, 4)
    assert len(calls) == 3 + (name in FOR_THE_ENCODER) and not any(taken)


@pytest.mark.parametrize("name", [name for name in MODULES if name != "mlp.act_fn"])
def test_a_module_of_another_class_is_called(name: str, model: Any, taken: list[bool]) -> None:
    module = model.decoder.layers[1].get_submodule(name)
    module.__class__ = type("Adapted", (type(module),), {})
    steps(model, 4)
    assert not any(taken)


@pytest.mark.parametrize("kind", plain_layers._FORWARDS, ids=lambda pair: pair[0].__name__)
def test_a_class_whose_forward_was_exchanged_is_called(
    kind: Any, model: Any, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def forward(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return kind[1](*args, **kwargs)

    monkeypatch.setattr(kind[0], "forward", forward)
    steps(model, 4)
    assert calls and not any(taken)


def _scaled(model: Any) -> None:
    weight_norm(model.decoder.layers[1].mlp.up_proj)


def _quantized(model: Any) -> None:
    layer = model.decoder.layers[1].mlp.up_proj
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Quantized), requires_grad=False)


def _replaced(model: Any) -> None:
    layer = model.decoder.layers[1].mlp
    layer.up_proj = nn.Sequential(layer.up_proj)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a parametrization": _scaled,
    "a weight of another class": _quantized,
    "a module in the module's place": _replaced,
    "a norm of another eps": lambda model: setattr(model.decoder.layers[1].input_layernorm, "variance_epsilon", 0.1),
    "a head norm of another eps": lambda model: setattr(
        model.decoder.layers[1].merged_attn.k_norm, "variance_epsilon", 1.0
    ),
    "a layer in training": lambda model: model.decoder.layers[1].train(),
    "eager attention": lambda model: model.set_attn_implementation("eager"),
    "a compiled module": lambda model: setattr(
        model.decoder.layers[1].mlp, "_compiled_call_impl", model.decoder.layers[1].mlp._call_impl
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_somebody_changed_counts(change: str, model: Any, taken: list[bool]) -> None:
    plain = steps(model, 5)
    assert any(taken)
    taken.clear()
    CHANGES[change](model)
    changed = steps(model, 5)
    assert not any(taken)
    if "eps" in change:
        assert (changed - plain).abs().max() > 1e-3


def test_norms_of_another_dtype_are_not_plain(model: Any) -> None:
    layers, eps = model.decoder.layers, model.config.rms_norm_eps
    assert plain_layers.plain_layers(layers, model.decoder.norm, torch.float32, eps) is not None
    assert plain_layers.plain_layers(layers, model.decoder.norm, torch.bfloat16, eps) is None
    layers[2].merged_attn.k_norm.double()
    assert plain_layers.plain_layers(layers, model.decoder.norm, torch.float32, eps) is None


def test_weights_that_change_between_two_steps_count(model: Any, taken: list[bool]) -> None:
    cache, memory = new_cache(), drawn(1, 7, 40)
    given = {"encoder_outputs": (memory,), "decoder_input_ids": torch.tensor([[5]])}
    steps(model, 4, cache)
    with torch.no_grad():
        before = model(**given, past_key_values=copy.deepcopy(cache)).logits
        model.decoder.layers[2].mlp.up_proj.weight = nn.Parameter(torch.zeros(56, 40))
        after = model(**given, past_key_values=cache).logits
    assert taken[-1] and (after - before).abs().max() > 0.1


def test_a_hook_on_every_module_sees_them_all(model: Any, taken: list[bool]) -> None:
    calls: list[nn.Module] = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: calls.append(module))
    try:
        steps(model, 3)
    finally:
        handle.remove()
    assert calls.count(model.decoder.layers[1].mlp.up_proj) == 2 and not any(taken)


def test_gradients_autocast_and_asked_for_states_take_the_modules(model: Any, taken: list[bool]) -> None:
    cache = new_cache()
    steps(model, 4, cache)
    taken.clear()
    given = {"encoder_outputs": (drawn(1, 7, 40),), "decoder_input_ids": torch.tensor([[5]])}
    found = model(**given, past_key_values=copy.deepcopy(cache)).logits
    found.sum().backward()
    assert model.decoder.layers[0].mlp.up_proj.weight.grad is not None
    with torch.no_grad():
        asked = model(**given, past_key_values=copy.deepcopy(cache), output_hidden_states=True)
        assert len(asked.decoder_hidden_states) == 4
        with torch.autocast("cpu", torch.bfloat16):
            assert model(**given, past_key_values=copy.deepcopy(cache)).logits.dtype == torch.bfloat16
    assert not any(taken)


def test_embeddings_whose_elements_are_apart_are_one_row_too(model: Any, taken: list[bool]) -> None:
    cache = new_cache()
    steps(model, 4, cache)
    apart = drawn(1, 1, 80)[..., ::2]
    found = []
    with torch.no_grad():
        for embedded in (apart, apart.contiguous()):
            given = {"encoder_outputs": (drawn(1, 7, 40),), "past_key_values": copy.deepcopy(cache)}
            found.append(model(**given, decoder_inputs_embeds=embedded).logits)
    assert taken[-2:] == [True, True]
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_a_row_of_another_class_of_tensors_takes_the_modules(model: Any, taken: list[bool]) -> None:
    cache = new_cache()
    steps(model, 4, cache)
    for kind, expected in ((torch.Tensor, True), (Quantized, False)):
        given = {"encoder_outputs": (drawn(1, 7, 40),), "past_key_values": copy.deepcopy(cache)}
        with torch.no_grad():
            model(**given, decoder_inputs_embeds=drawn(1, 1, 40).as_subclass(kind))
        assert taken[-1] is expected


def test_layers_of_other_widths_inside_are_taken_as_they_are(
    model: Any, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlp = model.decoder.layers[1].mlp
    for layer in (mlp.gate_proj, mlp.up_proj):  # as a pruned network has them
        layer.weight = nn.Parameter(layer.weight[:30].clone())
    mlp.down_proj.weight = nn.Parameter(mlp.down_proj.weight[:, :30].clone())
    mlp.down_proj.in_features = 30
    actual = steps(model, 6)
    assert any(taken)
    monkeypatch.setattr(modeling_qwen3_decoder, "decode_row", lambda *given: None)
    torch.testing.assert_close(actual, steps(model, 6), rtol=1e-4, atol=1e-4)


def test_two_rows_two_tokens_and_somebodys_cache_take_the_modules(model: Any, taken: list[bool]) -> None:
    steps(model, 5, EncoderDecoderCache(DynamicCache(), DynamicCache()))
    cache = new_cache()
    with torch.no_grad():
        for tokens in ([[5], [6]], [[7], [8]]):
            given = {"encoder_outputs": (drawn(2, 7, 40),), "decoder_input_ids": torch.tensor(tokens)}
            model(**given, past_key_values=cache)
    cache = new_cache()
    steps(model, 3, cache)
    taken.clear()
    with torch.no_grad():
        given = {"encoder_outputs": (drawn(1, 7, 40),), "decoder_input_ids": torch.tensor([[5, 6]])}
        model(**given, past_key_values=cache)
    assert not any(taken)


def test_a_step_that_cannot_be_taken_leaves_the_cache_as_it_was(model: Any, taken: list[bool]) -> None:
    cache = new_cache()
    steps(model, 4, cache)
    cache.self_attention_cache.layers[2].keys = cache.self_attention_cache.layers[2].keys.clone()
    steps_before = [layer.get_seq_length() for layer in cache.self_attention_cache.layers]
    with torch.no_grad():
        given = {"encoder_outputs": (drawn(1, 7, 40),), "decoder_input_ids": torch.tensor([[5]])}
        model(**given, past_key_values=cache)
    assert not taken[-1] and steps_before == [4, 4, 4]
    assert [layer.get_seq_length() for layer in cache.self_attention_cache.layers] == [5, 5, 5]


HEADS: Any = SimpleNamespace(num_attention_heads=6, kv_heads=2, head_dim=128, rms_norm_eps=1e-6, use_qk_norm=True)


@DTYPES
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-5, 1.0, 3e2])
def test_its_norms_are_exact_to_rounding(dtype: torch.dtype, scale: float) -> None:
    eps = HEADS.rms_norm_eps
    row, weight = (scale * drawn(5120)).to(dtype), drawn(5120, dtype=dtype, seed=5)
    no_rotation = torch.ones(128, dtype=dtype), torch.zeros(128, dtype=dtype)
    scratch = one_row._Scratch(torch.empty(64, dtype=dtype), no_rotation, HEADS)
    scratch.heads.copy_(scale * drawn(8, 128))
    one_row._turn(scratch, (weight[:128], weight[128:256]))
    found = one_row._normed(row, weight, eps, torch.empty_like(row)), scratch.heads
    weights = torch.cat((weight[:128].expand(6, -1), weight[128:256].expand(2, -1)))
    for actual, x, w in zip(found, (row, (scale * drawn(8, 128)).to(dtype)), (weight, weights), strict=True):
        wide = x.double()
        expected = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * w.double()
        units = ROUNDING[dtype] * (3 if dtype != torch.float32 else 12)
        assert actual.dtype == dtype
        assert ((actual.double() - expected).abs() <= units * expected.abs() + 2.0**-24).all()


def test_its_norm_applies_the_weight_after_the_cast() -> None:
    x, weight = drawn(4096, dtype=torch.bfloat16), drawn(4096, dtype=torch.bfloat16, seed=5)
    norm = Qwen3RMSNorm(4096).to(torch.bfloat16)
    norm.weight = nn.Parameter(weight, requires_grad=False)
    early = (x.float() * torch.rsqrt(x.float().square().mean() + 1e-6) * weight.float()).to(torch.bfloat16)
    assert (one_row._normed(x, weight, 1e-6, torch.empty_like(x)) != norm(x)).float().mean() < 1e-3
    assert (early != norm(x)).float().mean() > 0.05
