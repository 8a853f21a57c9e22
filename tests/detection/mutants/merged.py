"""Seeded bugs: the decoder's queries over the encoder's keys. The mask of that half, and the softmax over both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.memory import MEMORY
from detection.mutants.mutant import Mutant, Seed
from detection.mutants.patch import Patch
from qwen3_encdec import attention, modeling_qwen3_decoder
from qwen3_encdec.merged_attention import Qwen3MergedAttention

_MASK, _PROBS = ("merged_attn.mask",), ("merged_attn.probs",)
_CASES = ("encdec/ragged", "encdec/window", "encdec/unrotated")


def _exchanged_halves(mask: torch.Tensor, own: int) -> torch.Tensor:
    return torch.cat((mask[..., own:], mask[..., :own]), dim=-1)


def _halves_of_the_mask(patch: Patch) -> None:
    def merged(plain: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        return _exchanged_halves(plain(*args, **kwargs), kwargs["slots"][0])

    patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def _padding_of(stack: str) -> Seed:
    """The encoder's half hides the decoder's padding ("decoder"), or the decoder's own half the encoder's."""

    def fitted(mask: torch.Tensor, length: int) -> torch.Tensor:
        return torch.nn.functional.pad(mask, (0, max(length - mask.shape[1], 0)), value=1)[:, :length]

    def merged(plain: Any, own: torch.Tensor, theirs: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        if stack == "decoder":
            return plain(own, fitted(own, theirs.shape[1]), **kwargs)  # type: ignore[no-any-return]
        return plain(fitted(theirs, own.shape[1]), theirs, **kwargs)  # type: ignore[no-any-return]

    return lambda patch: patch.wrap(modeling_qwen3_decoder, "merged_mask", merged)


def _softmax(join: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Seed:
    """The probabilities of merged attention are `join(own half, encoder's half)`, each a softmax of its own."""

    def seed(patch: Patch) -> None:
        lengths: list[int] = []

        def attend(plain: Any, module: Any, states: Any, memory: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            lengths[:] = [memory.shape[1]]
            return plain(module, states, memory, *args, **kwargs)

        def probabilities(plain: Any, scores: torch.Tensor, mask: torch.Tensor, dtype: torch.dtype) -> Any:
            own = scores.shape[-1] - (lengths[0] if lengths else 0)
            if own == scores.shape[-1]:
                return plain(scores, mask, dtype)
            halves = [plain(scores[..., part], mask[..., part], dtype) for part in (slice(own), slice(own, None))]
            return join(halves[0], halves[1])

        patch.wrap(Qwen3MergedAttention, "forward", attend)
        patch.wrap(attention, "probabilities", probabilities)

    return seed


def _position_bias(patch: Patch) -> None:
    def probabilities(plain: Any, scores: torch.Tensor, mask: torch.Tensor, dtype: torch.dtype) -> Any:
        bias = 0.1 * torch.arange(scores.shape[-1]).log1p()
        return plain(scores + bias, mask, dtype)

    patch.wrap(attention, "probabilities", probabilities)


def _memory_mask(name: str, says: str, rule: Callable[[Cells], torch.Tensor], named: str, *cases: str) -> Mutant:
    return entry(name, says, decoder_mask(memory=rule), _MASK, named, cases or _CASES)


_MASKS = (
    entry(
        "MRG-01",
        "the mask is [encoder | own], the keys are [own | encoder]",
        _halves_of_the_mask,
        _MASK,
        "mask.halves_exchanged",
        _CASES,
    ),
    _memory_mask("MRG-05", "the encoder's keys are causal too", lambda c: c.real & c.causal, "mask.memory_causal"),
    _memory_mask(
        "MRG-06", "the encoder's padding is seen", lambda c: torch.ones_like(c.real), "mask.memory_padding_ignored"
    ),
    _memory_mask(
        "MRG-08",
        "the decoder's window limits the encoder's keys",
        lambda c: c.real & c.both_sides(),
        "mask.memory_windowed",
        "encdec/window",
    ),
    _memory_mask(
        "MRG-08/last",
        "layers with a window see the encoder's last keys alone",
        lambda c: c.real & (c.key >= c.key.shape[1] - (c.window or c.key.shape[1])),
        "mask.memory_windowed",
        "encdec/window",
    ),
    _memory_mask(
        "own/memory-hidden", "the encoder is hidden in decoding", lambda c: c.real & (c.past == 0), "mask.memory_hidden"
    ),
    _memory_mask(
        "own/memory-padding-late",
        "the encoder's padding is seen from the third call on",
        lambda c: c.real | (c.past > 4),
        "mask.memory_padding_ignored",
        "encdec/ragged",
    ),
    _memory_mask(
        "own/memory-last-hidden",
        "the encoder's last key is hidden",
        lambda c: c.real & (c.key < c.key.shape[1] - 1),
        "mask.bands mask.off_by_one",
        "encdec/window",
        "encdec/ragged",
    ),
    _memory_mask(
        "own/memory-mask-row", "rows have each other's encoder padding", lambda c: c.real.roll(1, 0), "mask.other_row"
    ),
    _memory_mask("own/memory-inverted", "1 means padding in the encoder's half", lambda c: ~c.real, "mask.inverted"),
    _memory_mask(
        "own/memory-padding-on-queries",
        "queries that are padding hide, keys that are padding do not",
        lambda c: c.query_real.expand(-1, -1, c.key.shape[1]),
        "mask.padding_on_queries mask.memory_padding_ignored",
    ),
    entry(
        "own/memory-padding-of-decoder",
        "the encoder's half hides the decoder's padding",
        _padding_of("decoder"),
        _MASK,
        "mask.padding_exchanged mask.bands",
        _CASES,
    ),
    entry(
        "own/mask-padding-of-encoder",
        "the decoder's half hides the encoder's padding",
        _padding_of("encoder"),
        _MASK,
        "mask.padding_exchanged mask.bands",
        _CASES[::2],
    ),
)


_ATTENTION = (
    entry(
        "MRG-02",
        "two softmaxes are averaged",
        _softmax(lambda own, theirs: torch.cat((own, theirs), -1) / 2),
        _PROBS,
        "softmax.two_halves",
        _CASES[::2],
    ),
    entry(
        "MRG-02/sum",
        "two softmaxes are added",
        _softmax(lambda own, theirs: torch.cat((own, theirs), -1)),
        _PROBS,
        "softmax.two_halves",
        _CASES[::2],
    ),
    entry(
        "MRG-02/gate",
        "two softmaxes are weighted 3 to 1",
        _softmax(lambda own, theirs: torch.cat((0.75 * own, 0.25 * theirs), -1)),
        _PROBS,
        "softmax.two_halves",
        _CASES[::2],
    ),
    entry(
        "T5B-01",
        "a position bias is added to all keys, the encoder's too",
        _position_bias,
        ("merged_attn.probs", "self_attn.probs"),
        "scores.extra_bias",
        _CASES[:1],
    ),
)

MUTANTS = (*_MASKS, *_ATTENTION, *MEMORY)
