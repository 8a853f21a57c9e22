"""The contract's easily mistaken facts about masks, caches and loading: each holds, and goes red when sprung."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from qwen3_encdec import load_qwen3, masks, merged_attention, modeling_qwen3_decoder, modeling_qwen3_encoder
from qwen3_encdec.weights import mapping as weight_mapping

Check = Callable[[], None]
RED = (AssertionError, RuntimeError, ValueError)


def test_fact_4_fully_masked_row_is_finite(make_model: Any, ids: Any, monkeypatch: Any) -> None:
    model = make_model()
    mask = torch.ones(2, 5)
    mask[1] = 0

    def check() -> None:
        with torch.no_grad():
            output = model(ids(2, 5), mask, ids(2, 5), mask)
        assert bool(output.logits.isfinite().all()) and bool(output.encoder_last_hidden_state.isfinite().all())

    for backend in ("eager", "sdpa"):
        model.set_attn_implementation(backend)
        check()
    model.set_attn_implementation("eager")
    build = masks.encoder_mask

    def added_twice(*args: Any) -> torch.Tensor:
        return build(*args) + build(*args)

    monkeypatch.setattr(modeling_qwen3_encoder, "encoder_mask", added_twice)
    with pytest.raises(AssertionError):
        check()


def test_fact_4_infinities_of_a_callers_mask_become_finite(make_model: Any) -> None:
    torch.manual_seed(0)
    mask = torch.full((1, 1, 3, 3), -torch.inf)
    output, _ = make_model().encoder.layers[0].self_attn(torch.randn(1, 3, 40), mask)
    assert bool(output.isfinite().all())


@pytest.fixture
def cached_decode(make_model: Any, ids: Any, monkeypatch: pytest.MonkeyPatch) -> Check:
    """A check of five steps: logits of the full forward, encoder keys computed and kept once."""
    model = make_model()
    source, target = ids(2, 6), ids(2, 5, seed=3)
    calls: list[int] = []
    compute = merged_attention.Qwen3MergedAttention.encoder_keys_values

    def counting(self: Any, *args: Any) -> Any:
        calls.append(self.layer_idx)
        return compute(self, *args)

    monkeypatch.setattr(merged_attention.Qwen3MergedAttention, "encoder_keys_values", counting)

    def check() -> None:
        with torch.no_grad():
            expected = model(source, decoder_input_ids=target, use_cache=False).logits
            encoded = model.encoder(source)
            calls.clear()
            cache, steps = None, []
            for step in range(5):
                output = model(
                    encoder_outputs=encoded, decoder_input_ids=target[:, step : step + 1], past_key_values=cache
                )
                cache = output.past_key_values
                steps.append(output.logits)
        torch.testing.assert_close(torch.cat(steps, 1), expected, rtol=1e-4, atol=1e-4)
        assert calls == [0, 1, 2]
        assert cache.cross_attention_cache.get_seq_length() == 6
        assert cache.get_seq_length() == 5

    return check


@pytest.mark.parametrize("trap", ["encoder keys appended at every step", "lengths of the current step only"])
def test_fact_5_encoder_keys_are_cached_once_and_the_past_is_the_self_caches(
    cached_decode: Check, monkeypatch: Any, trap: str
) -> None:
    cached_decode()
    if trap == "lengths of the current step only":
        monkeypatch.setattr(modeling_qwen3_decoder, "past_length", lambda cache, layer_idx=0: 0)
    else:
        monkeypatch.setattr(merged_attention, "has_encoder_keys", lambda cache, layer_idx: False)
    with pytest.raises(RED):
        cached_decode()


def test_fact_6_final_norm_is_called_norm_and_every_tensor_is_accounted_for(save_hf: Any, monkeypatch: Any) -> None:
    hf, directory = save_hf()

    def check() -> None:
        model = load_qwen3(directory)
        torch.testing.assert_close(model.encoder.norm.weight, hf.model.norm.weight, rtol=0, atol=0)
        torch.testing.assert_close(model.decoder.norm.weight, hf.model.norm.weight, rtol=0, atol=0)

    check()
    wrong = tuple(replace(row, target=row.target.replace("}.norm.", "}.ln_f.")) for row in weight_mapping.TABLE)
    monkeypatch.setattr(weight_mapping, "TABLE", wrong)
    with pytest.raises(ValueError, match=r"unmapped: decoder\.norm\.weight[\s\S]*unmapped: decoder\.ln_f\.weight"):
        check()


def _expected_window(length: int, window: int, bidirectional: bool) -> torch.Tensor:
    rows = []
    for i in range(length):
        inside = (lambda j, i=i: abs(i - j) <= window) if bidirectional else (lambda j, i=i: 0 <= i - j < window)
        rows.append([inside(j) for j in range(length)])
    return torch.tensor(rows)


@pytest.mark.parametrize("window", [1, 3, 4])
def test_fact_13_windows_are_symmetric_in_the_encoder_causal_in_the_decoder_and_spare_encoder_keys(
    make_model: Any, ids: Any, monkeypatch: Any, window: int
) -> None:
    model = make_model(layer_types=["sliding_attention", "full_attention", "sliding_attention"], sliding_window=window)

    def check() -> None:
        with torch.no_grad():
            output = model(ids(1, 9), decoder_input_ids=ids(1, 7), output_attentions=True)
        assert torch.equal(output.encoder_attentions[0][0, 0] > 0, _expected_window(9, window, True))
        assert torch.equal(output.decoder_attentions[2][0, 0] > 0, _expected_window(7, window, False))
        assert bool((output.cross_attentions[0] > 0).all())
        assert bool((output.encoder_attentions[1] > 0).all())

    check()
    monkeypatch.setattr(masks, "_window_visible", lambda distance, w: torch.ones_like(distance, dtype=torch.bool))
    with pytest.raises(AssertionError):
        check()
    monkeypatch.setattr(masks, "_window_visible", lambda distance, w: distance < (100 if w is None else w))
    with pytest.raises(AssertionError):
        check()


def test_fact_13_cache_that_would_evict_encoder_keys_is_refused(make_model: Any, ids: Any) -> None:
    model = make_model(layer_types=["sliding_attention"] * 3, sliding_window=3)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache(config=model.config))
    with pytest.raises(ValueError, match="evict encoder keys"):
        model(ids(1, 5), decoder_input_ids=ids(1, 2), past_key_values=cache)


@pytest.mark.parametrize("side", ["left", "right"])
def test_fact_14_row_alone_equals_the_same_row_padded(make_model: Any, ids: Any, monkeypatch: Any, side: str) -> None:
    model = make_model()
    source, target = ids(2, 7), ids(2, 6, seed=2)
    real_source, real_target = (slice(3, 7), slice(2, 6)) if side == "left" else (slice(0, 4), slice(0, 4))
    source_mask, target_mask = torch.zeros(2, 7), torch.zeros(2, 6)
    source_mask[0], target_mask[0] = 1, 1
    source_mask[1, real_source], target_mask[1, real_target] = 1, 1

    def check() -> None:
        with torch.no_grad():
            batch = model(source, source_mask, target, target_mask).logits[1:, real_target]
            alone = model(source[1:, real_source], decoder_input_ids=target[1:, real_target]).logits
        torch.testing.assert_close(batch, alone, rtol=1e-4, atol=1e-4)

    check()

    def counted_with_pads(given: Any, mask: Any, batch: int, length: int, past: int, *_: Any) -> torch.Tensor:
        return torch.arange(past, past + length).expand(batch, -1)

    # Rotary attention sees differences only: a shift shows where decoder and encoder rows are shifted differently.
    for module in (modeling_qwen3_encoder, modeling_qwen3_decoder):
        monkeypatch.setattr(module, "positions", counted_with_pads)
    if side == "left":
        with pytest.raises(AssertionError):
            check()
    else:
        check()


def test_fact_15_unwritten_cache_slots_never_reach_the_softmax(make_model: Any, ids: Any, monkeypatch: Any) -> None:
    model = make_model()
    source, target = ids(2, 6), ids(2, 5, seed=3)
    build = masks.merged_mask

    def check() -> None:
        own = StaticCache(config=model.config, max_cache_len=11)
        own.early_initialization(2, 2, 10, torch.float32, torch.device("cpu"))
        for layer in own.layers:
            layer.keys.fill_(300.0)
            layer.values.fill_(-700.0)
        cache = EncoderDecoderCache(own, DynamicCache())
        with torch.no_grad():
            expected = model(source, decoder_input_ids=target).logits
            encoded = model.encoder(source)
            outputs = [
                model(encoder_outputs=encoded, decoder_input_ids=part, past_key_values=cache, output_attentions=True)
                for part in (target[:, :3], target[:, 3:])
            ]
        torch.testing.assert_close(torch.cat([o.logits for o in outputs], 1), expected, rtol=1e-4, atol=1e-4)
        assert outputs[-1].decoder_attentions[0].shape[-1] == 11
        assert float(outputs[-1].decoder_attentions[0][..., 5:].max()) == 0.0

    check()

    def leaky(*args: Any, query: int, past: int, slots: tuple[int, int], **kwargs: Any) -> torch.Tensor:
        mask = build(*args, query=query, past=past, slots=slots, **kwargs).clone()
        mask[..., past + query : slots[0]] = 0
        return mask

    monkeypatch.setattr(modeling_qwen3_decoder, "merged_mask", leaky)
    with pytest.raises(AssertionError):
        check()
