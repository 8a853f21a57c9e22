"""Seeded bugs: who sees whom – causality, padding, windows – and masks that are added to the scores in a wrong way."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import Cells, config_field, constants, decoder_mask
from detection.mutants.mutant import Mutant, Seed
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder
from qwen3_encdec.modeling_qwen3_encoder import Qwen3Encoder

_OWN, _ENCODER, _PROBS = "merged_attn.mask", "self_attn.mask", ("merged_attn.probs", "self_attn.probs")
_RAGGED = ("decoder/ragged_decode", "encdec/ragged")
_CHUNKS = ("decoder/window_even", "decoder/window_chunks", "encdec/unrotated")
_WINDOW = ("decoder/window_chunks", "decoder/window_even", "encdec/window")
_PAD = 3
"""The id that fills the padding of the goldens; it also stands in the text."""


def pad_id(patch: Patch) -> None:
    def forward(plain: Any, stack: Any, input_ids: Any, attention_mask: Any, **kwargs: Any) -> Any:
        return plain(stack, input_ids=input_ids, attention_mask=attention_mask & (input_ids != _PAD), **kwargs)

    patch.wrap(Qwen3Encoder, "forward", forward)


def previous_step(patch: Patch) -> None:
    """A decode step gets the row of the step before, one visible slot wider."""
    masks: dict[int | None, torch.Tensor] = {}

    def merged(plain: Any, padding: Any, theirs: Any, **kwargs: Any) -> torch.Tensor:
        mask: torch.Tensor = plain(padding, theirs, **kwargs)
        before, window = masks.get(kwargs["window"]), kwargs["window"]
        masks[window] = mask
        if before is None or kwargs["past"] == 0 or kwargs["query"] > 1:
            return mask
        slots = before.shape[-1] - kwargs["encoder_length"]
        row = before[:, :, -1:]
        return torch.cat((row[..., :slots], torch.zeros_like(row[..., :1]), row[..., slots:]), dim=-1)

    patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def stale_padding(c: Cells) -> torch.Tensor:
    """In decoding, padding as long as the prompt at the end of the keys; slots before it count as real."""
    if c.past == 0:
        return c.rule
    moved = torch.ones_like(c.real)
    moved[..., 1:] = c.real[..., :-1]
    return c.causal & c.near() & moved


def _float_padding(patch: Patch) -> None:
    def merged(plain: Any, padding: torch.Tensor, theirs: Any, **kwargs: Any) -> torch.Tensor:
        mask: torch.Tensor = plain(None, theirs, **kwargs)
        return mask + torch.nn.functional.pad(padding.to(mask.dtype), (0, kwargs["encoder_length"]))[:, None, None]

    patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def _exchanged(types: list[str]) -> list[str]:
    opposite = {"full_attention": "sliding_attention", "sliding_attention": "full_attention"}
    return [opposite[name] for name in types]


def _bug(name: str, says: str, seed: Seed, named: str, cases: tuple[str, ...], wrong: str = _OWN) -> Mutant:
    return entry(name, says, seed, (wrong,), named, cases)


MUTANTS = (
    _bug("MSK-04", "causal in the first call alone: a chunk sees its own future",
         decoder_mask(lambda c: (c.causal | (c.past > 0)) & c.near() & c.real), "mask.bidirectional", _CHUNKS),
    _bug("own/mask-top-left", "a chunk's triangle starts at slot 0",
         decoder_mask(lambda c: (c.distance >= c.past) & c.near() & c.real), "mask.top_left", _CHUNKS),
    _bug("own/mask-newest-hidden", "a decode step does not see its own token",
         decoder_mask(lambda c: c.rule & ((c.distance > 0) | (c.past == 0))), "mask.off_by_one", _RAGGED),
    _bug("own/mask-step-before", "a decode step uses the mask of the step before, one slot wider", previous_step,
         "wiring.previous_step", ("encdec/window", "decoder/window_chunks")),
    _bug("MSK-16", "padding is not extended in decoding: it slides along the keys", decoder_mask(stale_padding),
         "mask.bands", _RAGGED),
    _bug("MSK-17", "no mask at all for one query",
         decoder_mask(lambda c: c.rule if len(c.query) > 1 else torch.ones_like(c.causal)), "mask.padding_ignored",
         _RAGGED),
    _bug("MSK-18", "padding behind the prompt is seen once it is in the cache",
         decoder_mask(lambda c: c.causal & c.near() & (c.real | ((c.key < c.past) & (c.real.long().cumsum(-1) > 0)))),
         "mask.padding_ignored mask.bands", _RAGGED),
    entry("MSK-30", "the mask comes from the padding id, which the text holds too", pad_id,
          (_ENCODER, "encoder.position_ids"), "mask.bands mask.pad_id", ("encoder/ragged",)),
    _bug("MSK-22", "the window is on the other layers", config_field("layer_types", _exchanged),
         "mask.window_wrong_layers", _WINDOW[:2]),
    _bug("MSK-22/all", "the window is on every layer",
         config_field("layer_types", lambda types: ["sliding_attention"] * len(types)), "mask.window_everywhere",
         _WINDOW[:2]),
    _bug("MSK-24", "no window for one query",
         decoder_mask(lambda c: c.causal & c.real & (c.near() | (len(c.query) == 1))), "mask.window_missing", _WINDOW),
    _bug("MSK-25", "the window counts queries inside the chunk",
         decoder_mask(lambda c: c.rule | (c.causal & c.real & c.near(c.past))), "mask.window_relative", _WINDOW),
    _bug("KVC-09", "W + 1 keys in the prompt, W in decoding",
         decoder_mask(lambda c: c.causal & c.real & c.near(int(c.past == 0))), "mask.window_off_by_one",
         ("encdec/window",)),
    _bug("own/mask-window-first-layer", "later layers lose the window",
         config_field("layer_types", lambda types: [types[0], *["full_attention"] * (len(types) - 1)]),
         "mask.window_wrong_layers mask.window_missing", ("decoder/window_chunks",)),
    entry("MSK-08", "a mask of 0 and 1 is added to the scores", constants(lambda visible, dtype: visible.to(dtype)),
          (_OWN, _ENCODER, *_PROBS), "softmax.boolean_added mask.inverted", ("encdec/ragged", "encdec/window")),
    entry("MSK-08/padding", "padding of 0 and 1 is added to a causal mask", _float_padding, (_OWN, _PROBS[0]),
          "softmax.boolean_added", ("decoder/ragged_decode",)),
)  # fmt: skip
