"""The same model called in other ways: embeddings, 4-D masks, counted positions, spare cache slots, autograd modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

from detection.honest.ours import Change, Patch, ours
from detection.honest.variation import Variation
from qwen3_golden import Recording, pb
from qwen3_parity.recording.ours.network import EncoderDecoder
from qwen3_reference.binding import emit
from qwen3_spec import ops

_SPARE = 7
"""Slots of a static cache that nothing is ever written to."""
_ATTENTION = (".q_rope", ".k_rope", ".encoder_k_rope", "cache_", ".mask", ".scores", ".context")
"""Parts of the names of taps that only the attention function itself can show."""


def given(change: Callable[[Any, str, dict[str, Any]], None], after: Callable[..., None] | None = None) -> Change:
    """`change(stack, name, arguments)` before each stack's forward, `after(stack, name, result)` behind it."""

    def patches(runner: EncoderDecoder) -> Iterable[Patch]:
        for name in ("encoder", "decoder"):
            stack: Any = getattr(runner.model, name)

            def forward(stack: Any = stack, name: str = name, plain: Any = stack.forward, **arguments: Any) -> Any:
                change(stack, name, arguments)
                result = plain(**arguments)
                if after is not None:
                    after(stack, name, result)
                return result

            yield stack, "forward", forward

    return patches


def _embeddings(stack: Any, _name: str, arguments: dict[str, Any]) -> None:
    if (ids := arguments.pop("input_ids", None)) is not None:
        arguments["inputs_embeds"] = stack.embed_tokens(ids)


def _tokens(arguments: dict[str, Any]) -> Any:
    """Ids `[batch, query]`, or the embeddings `[batch, query, hidden]` that are given in their place."""
    ids = arguments.get("input_ids")
    return arguments["inputs_embeds"] if ids is None else ids


def explicit(_stack: Any, name: str, arguments: dict[str, Any]) -> None:
    """Masks and positions of every token where the caller leaves them to the model."""
    batch, query = _tokens(arguments).shape[:2]
    cache = arguments.get("past_key_values")
    past = 0 if cache is None else int(cache.self_attention_cache.get_seq_length(0))
    _fill(arguments, "", batch, past + query, past)
    if name == "decoder" and arguments["encoder_hidden_states"].shape[1]:
        _fill(arguments, "encoder_", batch, arguments["encoder_hidden_states"].shape[1], 0)


def _fill(arguments: dict[str, Any], stack: str, batch: int, total: int, past: int) -> None:
    mask, positions = f"{stack}attention_mask", f"{stack}position_ids"
    if arguments.get(mask) is None:
        arguments[mask] = torch.ones(batch, total, dtype=torch.bool)
    if arguments.get(positions) is None:
        real = arguments[mask].numpy() if arguments[mask].ndim == 2 else np.ones((batch, total), bool)
        counted = ops.position_ids.counted(real)
        arguments[positions] = torch.from_numpy(counted)[:, past:]


def _square_masks(stack: Any, name: str, arguments: dict[str, Any]) -> None:
    explicit(stack, name, arguments)
    if arguments["attention_mask"].ndim == 4:
        return
    real = arguments["attention_mask"].numpy()
    query = _tokens(arguments).shape[1]
    visible = ops.mask.encoder_mask(real) if name == "encoder" else ops.mask.merged(real, None, query)
    arguments["attention_mask"] = torch.from_numpy(np.ascontiguousarray(visible))[:, None]


def _added_masks(stack: Any, name: str, arguments: dict[str, Any]) -> None:
    _square_masks(stack, name, arguments)
    hidden = ~arguments["attention_mask"]
    arguments["attention_mask"] = torch.zeros(hidden.shape, dtype=stack.dtype).masked_fill(hidden, -torch.inf)


def _attentions(_stack: Any, _name: str, arguments: dict[str, Any]) -> None:
    arguments |= {"output_attentions": True, "output_hidden_states": True}


def _emit_attentions(stack: Any, name: str, result: Any) -> None:
    for layer, weights in zip(stack.layers, result.attentions, strict=True):
        emit(layer.self_attn if name == "encoder" else layer.merged_attn, "probs", weights)


def _static_cache(runner: EncoderDecoder) -> Iterable[Patch]:
    """A static cache for the decoder's own keys, larger than the text."""
    model: Any = runner.model
    plain = model.forward
    whole = model.config.to_dict() | {"layer_types": ["full_attention"] * model.config.num_hidden_layers}
    config = type(model.config).from_dict(whole | {"sliding_window": None})

    def forward(**arguments: Any) -> Any:
        mask = arguments.get("decoder_attention_mask")
        if mask is not None and mask.ndim == 4:  # it covers every slot of the cache
            arguments["decoder_attention_mask"] = torch.nn.functional.pad(mask, (0, _SPARE + 160 - mask.shape[-1]))
        if arguments.get("past_key_values") is None and arguments.get("cache") is None:
            own = StaticCache(config=config, max_cache_len=_SPARE + 160)
            arguments["past_key_values"] = EncoderDecoderCache(own, DynamicCache())
        return plain(**arguments)

    return ((model, "forward", forward),)


def _without_spare(case: pb.Case, name: str, step: int, value: Any) -> Iterable[tuple[str, Any]]:
    """Keys without the slots that are not written; the step's own keys are the last that are."""
    stop = sum(case.steps[: step + 1])
    if not name.startswith("decoder.layers."):
        return ((name, value),)
    kind = name.rpartition(".")[2]
    if kind in ("cache_keys", "cache_values"):
        kept = value[:, :, :stop].clone()
        own = kept[:, :, stop - case.steps[step] :]
        return ((name.replace("cache_keys", "k_rope"), own), (name, kept)) if kind == "cache_keys" else ((name, kept),)
    if kind in ("mask", "scores", "probs"):
        return ((name, torch.cat((value[..., :stop], value[..., _SPARE + 160 :]), dim=-1)),)
    return () if kind == "k_rope" else ((name, value),)


def _training(runner: EncoderDecoder) -> Iterable[Patch]:
    """Training mode, with a dropout of 0."""
    runner.model.train()
    for stack in (runner.model.encoder, runner.model.decoder):
        for module in stack.modules():
            if hasattr(module, "attention_dropout"):
                yield module, "attention_dropout", 0.0


def _not_generating(golden: Recording) -> bool:
    """A mask of our own making would not know the slots of the cache that generation makes."""
    return not golden.case.max_new_tokens


def _shows_caches(golden: Recording) -> bool:
    """Decoding whose keys can be told from spare slots, generation apart."""
    keys, cached = (f"decoder.layers.0.merged_attn.{name}" for name in ("k_rope", "cache_keys"))
    known = golden.get(keys) is None or golden.get(cached) is not None
    return bool(golden.case.steps) and known and _not_generating(golden)


def _with_gradients(runner: EncoderDecoder) -> Iterable[Patch]:
    model: Any = runner.model
    for module in (model.encoder, model.decoder, model.lm_head):

        def forward(*args: Any, plain: Any = module.forward, **arguments: Any) -> Any:
            with torch.enable_grad():
                return plain(*args, **arguments)

        yield module, "forward", forward


def _loud(runner: EncoderDecoder) -> Iterable[Patch]:
    """A head that is stored, not tied: another tensor with the same numbers."""
    head = runner.model.lm_head
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    return ()


VARIATIONS = (
    Variation("call_embeddings", "embeddings given instead of ids", ours(given(_embeddings))),
    Variation("call_square_masks", "4-D bool masks instead of padding", ours(given(_square_masks)), _not_generating),
    Variation("call_added_masks", "4-D masks of 0 and -inf", ours(given(_added_masks)), _not_generating),
    Variation("call_explicit", "masks without padding and counted positions are given", ours(given(explicit))),
    Variation("call_attentions", "attention weights and hidden states returned",
        ours(given(_attentions, _emit_attentions),
        shows=lambda row: not any(part in row.pattern for part in _ATTENTION))),
    Variation("call_static_cache", "a static cache with spare slots", ours(_static_cache, see=_without_spare),
        _shows_caches),
    Variation("call_training", "train mode, every dropout 0", ours(_training)),
    Variation("call_gradients", "gradients are recorded", ours(_with_gradients)),
    Variation("call_inference_mode", "inference mode", ours(around=torch.inference_mode)),
    Variation("head_copied", "a tied head stored as a copy", ours(_loud)),
)  # fmt: skip
