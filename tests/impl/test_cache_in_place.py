"""Decoding in place: a step copies neither the decoder's past nor the encoder's keys, and nobody's tensor changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from qwen3_encdec import backends, merged_attention, merged_cache
from qwen3_encdec.caches import cache_bytes_per_token, new_cache

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
WINDOWED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 3}


class Written(TorchDispatchMode):
    """Counts the elements of whatever tensors an operation makes or writes to, views and attention apart."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and not func.is_view and "attention" not in str(func):
            self.elements += found.numel()
        return found


@pytest.fixture(scope="module")
def model(make_model: Any) -> Any:
    return make_model(attn_implementation="sdpa")


@torch.no_grad()
def _decode(model: Any, target: torch.Tensor, memory: torch.Tensor, cache: Any, **masks: Any) -> torch.Tensor:
    logits: torch.Tensor = model(
        encoder_outputs=(memory,), decoder_input_ids=target, past_key_values=cache, use_cache=True, **masks
    ).logits
    return logits


def _memory(batch: int, length: int) -> torch.Tensor:
    return torch.linspace(-1, 1, batch * length * 40).reshape(batch, length, 40).sin()


def _elements_of_a_step(model: Any, length: int, padded: bool, rows: int) -> int:
    memory, cache = _memory(rows, length), new_cache()
    mask = torch.ones(rows, length, dtype=torch.long)
    mask[-1, :1] = 0 if padded else 1
    for _ in range(3):
        with Written() as written:
            _decode(model, torch.tensor([[5], [6]])[:rows], memory, cache, attention_mask=mask)
    return written.elements


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
def test_what_a_decode_step_writes_does_not_grow_with_the_encoder_beyond_its_mask(
    model: Any, padded: bool, rows: int
) -> None:
    short, long = _elements_of_a_step(model, 8, padded, rows), _elements_of_a_step(model, 264, padded, rows)
    keys = rows * 2 * 3 * 2 * 10 * 256  # keys and values of 256 tokens, three layers, two heads of 10
    assert long - short <= 20 * rows * 256 < keys / 3


@pytest.mark.parametrize("trap", ["joined at every step", "no room to spare"])
def test_a_step_that_copies_the_encoders_keys_is_found(model: Any, monkeypatch: Any, trap: str) -> None:
    if trap == "joined at every step":
        monkeypatch.setattr(
            merged_attention,
            "memory_first",
            lambda cache, layer_idx, own, memory: [torch.cat((m, o), 2) for m, o in zip(memory, own, strict=True)],
        )
    else:
        monkeypatch.setattr(merged_cache.Room, "takes", lambda self, tokens, dtype: False)
    with pytest.raises(AssertionError):
        test_what_a_decode_step_writes_does_not_grow_with_the_encoder_beyond_its_mask(model, False, 2)


def test_encoder_keys_are_projected_once(model: Any, monkeypatch: Any) -> None:
    calls: list[int] = []
    plain = merged_attention.Qwen3MergedAttention.encoder_keys_values

    def counted(self: Any, *args: Any) -> Any:
        calls.append(self.layer_idx)
        return plain(self, *args)

    monkeypatch.setattr(merged_attention.Qwen3MergedAttention, "encoder_keys_values", counted)
    cache = new_cache()
    for _ in range(4):
        _decode(model, torch.tensor([[5]]), _memory(1, 6), cache)
    assert calls == [0, 1, 2]


def _lengths(model: Any, mask: bool) -> dict[str, torch.Tensor]:
    if not mask:
        return {}
    found = torch.ones(2, 7, dtype=torch.long)
    found[0, 5:] = 0
    return {"attention_mask": found}


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("sizes", [{}, WINDOWED], ids=["full", "windowed"])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("length", [0, 7])
@pytest.mark.parametrize("rows", [1, 2])
def test_steps_in_place_give_the_uncached_logits(
    make_model: Any, ids: Any, sizes: Any, padded: bool, length: int, rows: int
) -> None:
    model = make_model(attn_implementation="sdpa", **sizes)
    memory, target = _memory(rows, length), ids(rows, 80, seed=4)
    masks = {name: mask[:rows] for name, mask in _lengths(model, padded and length > 0).items()}
    expected = _decode(model, target, memory, None, **masks)
    cache = new_cache()
    steps = [2, *[1] * 70, 3, *[1] * 5]  # over the end of the first buffer's spare slots
    logits = torch.cat([_decode(model, part, memory, cache, **masks) for part in target.split(steps, 1)], dim=1)
    torch.testing.assert_close(logits, expected, **CLOSE)


@pytest.mark.parametrize("padded", [0, 2])
def test_steps_with_a_padded_prefix_give_the_uncached_logits(model: Any, ids: Any, padded: int) -> None:
    memory, target = _memory(2, 5), ids(2, 9, seed=4)
    seen = torch.ones(2, 9, dtype=torch.long)
    seen[0, :padded] = 0
    expected = _decode(model, target, memory, None, decoder_attention_mask=seen)
    cache = new_cache()
    logits = torch.cat(
        [
            _decode(model, target[:, at : at + 1], memory, cache, decoder_attention_mask=seen[:, : at + 1])
            for at in range(9)
        ],
        dim=1,
    )
    torch.testing.assert_close(logits[seen.bool()], expected[seen.bool()], **CLOSE)


def test_a_row_mask_in_the_masks_own_order_is_found(model: Any, ids: Any, monkeypatch: Any) -> None:
    plain = backends.SdpaMask
    monkeypatch.setattr(
        "qwen3_encdec.modeling_qwen3_decoder.SdpaMask",
        lambda mask: plain(None if mask is None else mask.roll(-5, dims=-1)),
    )
    with pytest.raises(AssertionError):
        test_steps_with_a_padded_prefix_give_the_uncached_logits(model, ids, 2)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "reordered": lambda cache: cache.reorder_cache(torch.tensor([1, 0])),
    "cropped": lambda cache: cache.crop(-2),
    "repeated": lambda cache: cache.batch_repeat_interleave(2),
    "selected": lambda cache: cache.batch_select_indices(torch.tensor([1])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_cache_goes_on_as_a_copying_one_does(model: Any, ids: Any, change: str) -> None:
    memory, target = _memory(2, 5), ids(2, 12, seed=4)
    logits = []
    for cache in (new_cache(), EncoderDecoderCache(DynamicCache(), DynamicCache())):
        for at in range(6):
            _decode(model, target[:, at : at + 1], memory, cache)
        CHANGES[change](cache)
        rows = {"repeated": [0, 0, 1, 1], "selected": [1]}.get(change, [0, 1])
        swapped = memory.flip(0) if change == "reordered" else memory
        logits.append([_decode(model, target[rows, at : at + 1], swapped[rows], cache) for at in range(6, 12)])
    torch.testing.assert_close(*logits, **CLOSE)


@pytest.mark.parametrize("name", ["keys", "values"])
@pytest.mark.parametrize("half", ["self_attention_cache", "cross_attention_cache"])
def test_a_tensor_that_somebody_puts_into_a_cache_counts(model: Any, ids: Any, half: str, name: str) -> None:
    memory, target = _memory(2, 5), ids(2, 12, seed=4)
    logits = []
    for cache in (new_cache(), EncoderDecoderCache(DynamicCache(), DynamicCache())):
        for at in range(6):
            _decode(model, target[:, at : at + 1], memory, cache)
        for layer in getattr(cache, half).layers:
            setattr(layer, name, 2 * getattr(layer, name))
        logits.append([_decode(model, target[:, at : at + 1], memory, cache) for at in range(6, 12)])
    torch.testing.assert_close(*logits, **CLOSE)


def test_a_static_half_beside_one_that_grows_in_place_is_copied_from(model: Any, ids: Any) -> None:
    memory, target = _memory(1, 5), ids(1, 8, seed=4)
    expected = _decode(model, target, memory, None)
    cache = EncoderDecoderCache(new_cache().self_attention_cache, StaticCache(model.config, max_cache_len=5))
    logits = [_decode(model, target[:, at : at + 1], memory, cache) for at in range(8)]
    torch.testing.assert_close(torch.cat(logits, dim=1), expected, **CLOSE)


def test_what_somebody_holds_is_never_written_over(model: Any, ids: Any) -> None:
    memory, target, cache = _memory(1, 5), ids(1, 20, seed=4), new_cache()
    for at in range(8):
        _decode(model, target[:, at : at + 1], memory, cache)
    held = [layer.keys for layer in cache.self_attention_cache.layers]
    before = [keys.clone() for keys in held]
    twin, shallow = copy.deepcopy(cache), EncoderDecoderCache(*(copy.copy(half) for half in _halves(cache)))
    shallow.self_attention_cache.layers = [copy.copy(layer) for layer in cache.self_attention_cache.layers]
    cache.crop(-3)
    runs = [
        torch.cat([_decode(model, target[:, at : at + 1], memory, one) for at in range(first, 14)], dim=1)[:, -6:]
        for one, first in ((cache, 5), (twin, 8), (shallow, 8))
    ]
    torch.testing.assert_close(held, before, rtol=0, atol=0)
    torch.testing.assert_close(runs[0], runs[1], **CLOSE)
    torch.testing.assert_close(runs[0], runs[2], **CLOSE)


def _halves(cache: EncoderDecoderCache) -> tuple[Any, Any]:
    return cache.self_attention_cache, cache.cross_attention_cache


def test_a_cache_filled_in_inference_mode_goes_on_outside_it(model: Any, ids: Any) -> None:
    memory, target, cache = _memory(1, 5), ids(1, 8, seed=4), new_cache()
    expected = _decode(model, target, memory, None)
    with torch.inference_mode():
        for at in range(5):
            _decode(model, target[:, at : at + 1], memory, cache)
    logits = [_decode(model, target[:, at : at + 1], memory, cache) for at in range(5, 8)]
    torch.testing.assert_close(torch.cat(logits, dim=1), expected[:, 5:], **CLOSE)


def test_gradients_flow_through_steps_on_a_cache_that_was_filled_in_place(model: Any, ids: Any) -> None:
    memory, target = _memory(1, 5), ids(1, 8, seed=4)
    gradients = []
    for cache in (new_cache(), EncoderDecoderCache(DynamicCache(), DynamicCache())):
        for at in (0, 2):  # a row of one token has kernels of its own in one of the two caches
            _decode(model, target[:, at : at + 2], memory, cache)
        model.zero_grad()
        total = torch.zeros(())
        for at in range(4, 8):
            output = model(encoder_outputs=(memory,), decoder_input_ids=target[:, at : at + 1], past_key_values=cache)
            total = total + output.logits.square().sum()
        total.backward()
        gradients.append({name: p.grad.clone() for name, p in model.decoder.named_parameters() if p.grad is not None})
    assert len(gradients[0]) > 30
    torch.testing.assert_close(*gradients, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_token_takes_the_bytes_that_are_stated(make_model: Any, dtype: torch.dtype) -> None:
    model = make_model(attn_implementation="sdpa").to(dtype)
    per_token = cache_bytes_per_token(model.config, dtype)
    assert per_token == 2 * 3 * 2 * 10 * dtype.itemsize
    cache, memory = new_cache(), _memory(1, 30).to(dtype)
    for _ in range(10):
        _decode(model, torch.tensor([[5]]), memory, cache)
    for half, tokens in zip(_halves(cache), (10, 30), strict=True):
        held = [tensor for layer in half.layers for tensor in (layer.keys, layer.values)]
        assert sum(tensor.nbytes for tensor in held) == tokens * per_token
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for half in _halves(cache)
        for layer in half.layers
        for tensor in (layer.keys, layer.values)
    }
    assert len(storages) == 3  # both halves of a layer's keys and values are in one buffer
    assert sum(storages.values()) <= (10 + 30 + 64) * per_token
