"""Which attention function a call uses, and the form of mask that function takes."""

from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .graph_capture import capturing

_FLEX_TILE = 128


@dataclass(frozen=True, eq=False)
class SdpaMask:
    """What SDPA is called with directly: an additive `[batch, 1 or heads, query, key]`, None where nothing is hidden.

    The decoder's keys are `[encoder ; decoder]` then, as a cache that grows in place holds them.
    """

    additive: torch.Tensor | None


SEES_ALL = SdpaMask(None)
Mask = torch.Tensor | BlockMask | SdpaMask


def implementation(config: Qwen3EncoderDecoderConfig, output_attentions: bool) -> str:
    """The configured name, or eager: only the eager function can show its weights."""
    return "eager" if output_attentions else (config._attn_implementation or "eager")


def calls_sdpa(config: Qwen3EncoderDecoderConfig, output_attentions: bool) -> bool:
    """Whether a call may take an `SdpaMask`: it runs SDPA, and its masks may be looked into."""
    return not capturing() and implementation(config, output_attentions) == "sdpa"


def backend_mask(mask: torch.Tensor, config: Qwen3EncoderDecoderConfig, output_attentions: bool) -> Mask:
    """An additive `[batch, 1 or heads, query, key]` as the call's attention function takes it.

    Every function takes it as it is, except flex attention, whose compiled kernel reads a tensor mask beyond its end:
    it gets a `BlockMask`. `ValueError` when such a mask is not just 0 / `finfo.min`, which a `BlockMask` cannot hold,
    and when the mask is for another number of heads.
    """
    if mask.shape[1] not in (1, config.num_attention_heads):
        raise ValueError(
            f"the attention mask has {mask.shape[1]} heads; expected 1 or num_attention_heads = "
            f"{config.num_attention_heads}"
        )
    return block_mask(mask) if implementation(config, output_attentions) == "flex_attention" else mask


def block_mask(mask: torch.Tensor) -> BlockMask:
    """An additive mask `[batch, 1 or heads, query, key]` as flex attention takes it; see `backend_mask`."""
    visible = mask == 0
    if not capturing() and not bool((visible | (mask == torch.finfo(mask.dtype).min)).all()):
        raise ValueError("flex_attention takes masks that show or hide; an additive bias needs eager or sdpa attention")
    batch, heads, query, key = mask.shape
    padded = torch.nn.functional.pad(visible, (0, -key % _FLEX_TILE, 0, -query % _FLEX_TILE))

    def sees(b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return padded[b, h if heads > 1 else 0, i, j]

    return create_block_mask(
        sees, batch, heads if heads > 1 else None, query, key, device=str(mask.device), _compile=False
    )
