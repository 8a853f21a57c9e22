"""Weights of others: square ones that nobody turns, codes that are read as others, and scales of other groups."""

from __future__ import annotations

import torch

from detection.blind.row import row
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import noise, taps, weights

_LANES = 4
"""Bytes of a word, with a low and a high code each."""
_GROUP, _KERNELS = 8, 20
"""Inputs that share a scale, and those that the kernel takes to share it."""
_ROW_GROUP = 10
_ALPHA_OVER_RANK = 2.0


def signed_codes(weight: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes -7 to 7 `[out, groups, size]` and scales `[out, groups, 1]`."""
    groups = torch.unflatten(weight, 1, (-1, size))
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 7
    return (groups / scale).round(), scale


def not_turned(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Whether a weight has to be transposed is told by its shape, and this one is square."""
    assert weight.shape[0] == weight.shape[1]
    return weight.T


def borrowed(codes: torch.Tensor) -> torch.Tensor:
    """4 codes of a word, each in a byte and 8 too large, less 8 each in one subtraction of 32 bits."""
    places = 8 * torch.arange(_LANES)
    word = ((codes.long() + 8) << places).sum(-1, keepdim=True) - (8 << places).sum()
    return (((word >> places & 255) ^ 128) - 128).to(codes.dtype)


def head_with_borrows(patch: Patch) -> None:
    weight = patch.model.lm_head.weight.detach()
    codes, scale = signed_codes(weight, weight.shape[1])
    lanes = torch.unflatten(codes, -1, (-1, _LANES, 2)).transpose(-1, -2)
    read = (borrowed(lanes).transpose(-1, -2).flatten(-3) * scale).flatten(1)
    patch.setattr(patch.model.lm_head, "forward", lambda x: torch.nn.functional.linear(x, read))


def less_seven(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Codes in two's complement are read as 0 to 15 less 7."""
    codes, scale = signed_codes(weight, weight.shape[1])
    return ((codes % 16 - 7) * scale).flatten(1)


def groups_of_the_kernel(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Codes were made with a scale and a zero point for 8 inputs each, and are read as if for 20."""
    groups = torch.unflatten(weight, 1, (-1, _GROUP))
    low, high = groups.amin(-1), groups.amax(-1)
    scale = (high - low) / 15
    zero = (-low / scale).round()
    codes = (groups / scale[..., None] + zero[..., None]).round().clamp(0, 15).flatten(1)
    index = torch.arange(weight.shape[1]) // _KERNELS
    return (codes - zero[:, index]) * scale[:, index]


def scale_by_row(weight: torch.Tensor, _layer: int) -> torch.Tensor:
    """Scales lie row by row, a row's groups one behind another, and are read at the row's number."""
    codes, scale = signed_codes(weight, _ROW_GROUP)
    return (codes * scale.flatten()[: len(weight), None, None]).flatten(1)


def bias_merged_unscaled(patch: Patch) -> None:
    """An adapter's matrices are merged by alpha / rank, and its bias as it is."""
    for layer, attention in enumerate(patch.attentions("decoder")):
        for projection in (attention.q_proj, attention.v_proj):
            bias = projection.bias.detach().clone()
            patch.change(projection.bias, bias + (1 - _ALPHA_OVER_RANK) * noise(bias[:, None], layer)[:, 0] * 0.5)


ROWS = (
    row("F043", "a square weight is taken to be transposed already", "huggingface/transformers#47031", "converter",
        "encdec/qwen2", weights(not_turned, "mlp.down_proj"), "mlp.down_proj"),
    row("F044", "4-bit codes are made signed by one subtraction for a word: negative ones borrow from the next",
        "gittensor-ai-lab/sparkinfer#761", "quantised weights", "decoder/plain encdec/ragged", head_with_borrows,
        "logits"),
    row("F045", "signed 4-bit codes are read as 0 to 15 less 7", "tile-ai/tilelang#2477", "quantised weights",
        "decoder/ragged_decode encdec/ragged", weights(less_seven, "o_proj"), taps("o_proj")),
    row("F046", "a kernel's group size stands in its code: inputs are read by other groups' scales",
        "mit-han-lab/llm-awq#21", "quantised weights", "decoder/plain_two_rows encdec/ragged",
        weights(groups_of_the_kernel, "mlp.gate_proj", "mlp.up_proj"), "mlp.gate_proj mlp.up_proj"),
    row("F047", "scales of groups are read as if there was one for each row", "JustVugg/colibri#298", "block scales",
        "decoder/inputs_embeds encdec/ragged", weights(scale_by_row, "v_proj"), taps("v_proj")),
    row("F048", "an adapter's bias is merged without alpha / rank", "huggingface/peft#2489", "adapter",
        "encdec/unpadded", bias_merged_unscaled, taps("q_proj", "v_proj")),
)  # fmt: skip
