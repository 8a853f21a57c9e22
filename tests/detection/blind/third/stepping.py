"""Decode steps and chunks of others that stand at another position, or read another chunk's rows or layer's weights."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mask_seeds import Cells, decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_decoder
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer
from qwen3_parity.recording.ours.network import EncoderDecoder

_DECODER = "decoder position_ids"


def past_lengths(patch: Patch) -> list[int]:
    """How many tokens are cached in the call that runs, kept up to date."""
    past: list[int] = [0]

    def positions(plain: Any, *args: Any) -> Any:
        past[:] = [args[4]] if args[5] == _DECODER else past
        return plain(*args)

    patch.wrap(modeling_qwen3_decoder, "positions", positions)
    return past


def upper_layers_ahead(patch: Patch) -> None:
    """The first layer counts the new token already when the others ask how many there are."""
    past = past_lengths(patch)

    def forward(plain: Any, layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if past[0] and x.shape[1] == 1 and layer.merged_attn.layer_idx:
            cos, sin = kwargs["position_embeddings"]
            angle = patch.model.decoder.rotary_emb.inv_freq.repeat(2)
            turned = cos * angle.cos() - sin * angle.sin(), sin * angle.cos() + cos * angle.sin()
            kwargs["position_embeddings"] = turned
        return plain(layer, x, *args, **kwargs)

    patch.wrap(Qwen3DecoderLayer, "forward", forward)


def by_whole_length(patch: Patch) -> None:
    """The kernel is told the prompt's whole length as the number of keys, and aligns queries to its end."""
    prompt: list[int] = []

    def run(plain: Any, runner: Any, case: Any, *args: Any) -> None:
        prompt[:] = [sum(step for step in case.steps if step > 1)]
        plain(runner, case, *args)

    def rule(cells: Cells) -> torch.Tensor:
        length = cells.past + len(cells.query)
        if len(cells.query) == 1 or length >= prompt[0]:
            return cells.rule
        distance = cells.distance + prompt[0] - length
        inside = (distance >= 0) & (distance < (cells.window or distance.max() + 1))
        return inside & cells.real

    patch.wrap(EncoderDecoder, "__call__", run)
    decoder_mask(rule=rule)(patch)


def offset_twice(patch: Patch) -> None:
    """The cache's offset has grown with the chunks, and the chunk's own offset is added to it."""

    def positions(plain: Any, *args: Any) -> Any:
        result = plain(*args)
        return result + args[4] if args[5] == _DECODER and args[4] and args[3] > 1 else result

    patch.wrap(modeling_qwen3_decoder, "positions", positions)


def rows_from_zero(patch: Patch) -> None:
    """A later chunk's layers read their input buffer from row 0, where the first chunk's rows lie."""
    past = past_lengths(patch)
    for layer in patch.layers("decoder"):
        first: list[torch.Tensor] = []

        def forward(plain: Any, x: torch.Tensor, first: list[torch.Tensor] = first) -> Any:
            if not past[0]:
                first[:] = [x]
            length = x.shape[1]
            later = past[0] and length > 1 and first[0].shape[1] >= length
            return plain(first[0][:, :length] if later else x)

        patch.wrap(layer.post_attention_layernorm, "forward", forward)


def captured_position(patch: Patch) -> None:
    """A captured step has the offset into the tables of cos and sin that it was captured with."""
    past = past_lengths(patch)
    captured: list[torch.Tensor] = []

    def forward(plain: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        if not past[0]:
            captured.clear()
        if past[0] and x.shape[1] == 1:
            captured.extend([] if captured else [position_ids])
            return plain(x, captured[0])
        return plain(x, position_ids)

    patch.wrap(patch.model.decoder.rotary_emb, "forward", forward)


def by_last_block(patch: Patch) -> None:
    """Every layer's cached attention was made in a loop and looks its block up when the loop has ended."""
    last = patch.attentions("decoder")[-1]
    plain = {name: getattr(last, name).forward for name in _MODULES}
    for attention in patch.attentions("decoder")[:-1]:
        for name in _MODULES:

            def forward(ours: Any, x: torch.Tensor, theirs: Any = plain[name]) -> Any:
                return theirs(x) if x.shape[1] == 1 else ours(x)

            patch.wrap(getattr(attention, name), "forward", forward)


_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
_CHUNKS, _STEPS = "decoder/window_chunks encdec/unrotated", "decoder/ragged_decode encdec/ragged"

ROWS = (
    row("E060", "the first layer counts the new token before the others ask: they rotate a position too far",
        "fla-org/flash-linear-attention#766", "positions", _STEPS, upper_layers_ahead,
        "merged_attn.q_rope merged_attn.k_rope"),
    row("E061", "a chunk's number of keys is the whole prompt's: its queries see later tokens",
        "GeeeekExplorer/nano-vllm#213", "chunks", _CHUNKS, by_whole_length, "merged_attn.mask"),
    row("E062", "a later chunk's positions count the earlier chunks twice", "mlx-node/mlx-node#33", "positions",
        "encdec/unrotated decoder/window_chunks", offset_twice, "decoder.position_ids"),
    row("E063", "a later chunk's norms read the first chunk's rows: the input's offset is 0",
        "nntrainer/nntrainer#3808", "chunks", _CHUNKS, rows_from_zero, "post_attention_layernorm"),
    row("E064", "a captured step goes on with the position it was captured at", "huggingface/candle#3728",
        "positions", "decoder/plain decoder/ragged_decode", captured_position, "decoder.cos decoder.sin"),
    row("E065", "decode steps of every layer attend by the last layer's weights", "TrenTorch/TrenTorch#141",
        "wiring", _STEPS, by_last_block, tuple(f"merged_attn.{name}" for name in _MODULES)),
)  # fmt: skip
