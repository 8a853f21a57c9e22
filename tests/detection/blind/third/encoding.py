"""Encoders of others and what decoders make of them: masks that do not arrive, a sublayer's input, a start twice."""

from __future__ import annotations

from typing import Any

import torch

from detection.blind.row import row
from detection.mutants.mask_seeds import decoder_mask
from detection.mutants.patch import Patch
from qwen3_encdec import modeling_qwen3_encdec
from qwen3_encdec.decoder_layer import Qwen3DecoderLayer
from qwen3_encdec.modeling_qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.modeling_qwen3_encoder import Qwen3EncoderLayer
from qwen3_encdec.transformer_encoder import TransformerEncoderBlock


def branch_of_attention(patch: Patch) -> None:
    """The second sublayer reads attention's output, without the first one's sum and norm."""

    def forward(_plain: Any, block: Any, x: torch.Tensor, mask: Any = None, shown: bool = False) -> Any:
        branch, weights = block.self_attn(x, mask, shown)
        normed = block.norm1(x + branch)
        return block.norm2(normed + block.feed_forward(branch)), weights

    patch.wrap(TransformerEncoderBlock, "forward", forward)


def started_twice(patch: Patch) -> None:
    """Labels begin with a start already, and the decoder's ids with another."""

    def behind_start(labels: torch.Tensor) -> torch.Tensor:
        start = patch.model.config.decoder_start_token_id
        return torch.cat((torch.full_like(labels[:, :1], start), labels[:, :-1]), dim=1)

    def prepare(plain: Any, model: Any, labels: torch.Tensor) -> Any:
        return plain(model, behind_start(labels))

    def loss(plain: Any, logits: torch.Tensor, labels: torch.Tensor, *args: Any) -> Any:
        return plain(logits, behind_start(labels), *args)

    patch.wrap(Qwen3ForSeq2SeqLM, "prepare_decoder_input_ids_from_labels", prepare)
    patch.wrap(modeling_qwen3_encdec, "_loss", loss)


def unmasked_in_training(patch: Patch) -> None:
    """Layers that are computed again for the way back are called without their mask."""

    def forward(plain: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            kwargs["mask"] = torch.zeros_like(kwargs["mask"])
        return plain(*args, **kwargs)

    for layer in (Qwen3EncoderLayer, Qwen3DecoderLayer):
        patch.wrap(layer, "forward", forward)


_MASKS = "merged_attn.mask self_attn.mask"
_QKV = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "q_norm.weight", "k_norm.weight")
_BEHIND_MASKS = " ".join(
    (
        *("output", "gradient.output", "gradient.attn_residual", "gradient.input_layernorm.weight"),
        *(f"gradient.{stack}.{name}" for stack in ("encoder", "decoder") for name in ("embed_tokens", "norm")),
        *(f"gradient.{attention}.{name}" for attention in ("merged_attn", "self_attn") for name in _QKV),
    )
)
"""What masks, which training does not record, are seen at."""

ROWS = (
    row("E076", "generation loses the encoder's mask: the decoder attends to the encoder's padding",
        "huggingface/transformers#36293", "padding", "encdec/ragged encdec/qwen2",
        decoder_mask(memory=lambda cells: torch.ones_like(cells.real)), "merged_attn.mask"),
    row("E077", "behind a post-norm sublayer the next one reads the bare output of attention", "ml-explore/mlx#3382",
        "wiring", "classic/post_norm classic/bert", branch_of_attention, "feed_forward.linear1"),
    row("E078", "labels begin with a start and are shifted behind another", "huggingface/transformers#7077",
        "labels", "training/from_labels", started_twice, "decoder.embed_tokens loss gradient.logits",
        also="gradient.shared.weight"),
    row("E079", "checkpointed layers are called without their mask", "lightly-ai/lightly#2049", "checkpointing",
        "training/tied training/untied", unmasked_in_training, _MASKS, also=_BEHIND_MASKS),
)  # fmt: skip
