"""Other attention functions and torch's compiler."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from copy import deepcopy
from functools import cache, lru_cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from detection.honest.attending import attending
from detection.honest.ours import Patch, ours
from detection.honest.variation import Variation
from qwen3_golden import Recording, pb
from qwen3_parity.recording.ours.network import NEVER_MATERIALISED, EncoderDecoder

Tensor = torch.Tensor
_TILE = 128
_OUTSIDE = (".layers.{layer}.input", ".layers.{layer}.output")
"""How the names of a layer's taps end that are outside of it."""


def _flex(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **more: Any) -> Any:
    """Flex attention as it is without a compiler, which it warns about."""
    return _by_flex(flex_attention, query, key, value, mask, scaling)


def _flex_compiled(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **more: Any
) -> Any:
    return _by_flex(_compile(), query, key, value, mask, scaling)


def _by_flex(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float) -> Any:
    blocks = _blocks(mask, query.shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = function(query, key, value, block_mask=blocks, scale=scaling, enable_gqa=True)
    return context.transpose(1, 2).contiguous(), None


@lru_cache(maxsize=4)
def _blocks(mask: Tensor, batch: int) -> BlockMask:
    """An additive mask, the same tensor for many layers, as a `BlockMask`, padded to whole tiles."""
    visible = (mask[:, 0] == 0).expand(batch, -1, -1)
    _, length, keys = visible.shape
    padded = torch.nn.functional.pad(visible, (0, -keys % _TILE, 0, -length % _TILE))

    def sees(b: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return padded[b, i, j]

    return create_block_mask(sees, batch, None, length, keys, device=str(mask.device), _compile=False)


def _unfused(row: pb.Tap) -> bool:
    return row.op not in NEVER_MATERIALISED


def compiled(runner: EncoderDecoder) -> Iterable[Patch]:
    """Every layer compiled as a whole. A copy is, to which nothing is attached: hooks would split it into pieces."""
    runner.model.set_attn_implementation("eager")
    torch.compiler.reset()
    for layer in (*runner.model.encoder.layers, *runner.model.decoder.layers):
        yield layer, "forward", torch.compile(deepcopy(layer).forward, dynamic=True)


def outside_of_layers(row: pb.Tap) -> bool:
    return ".layers." not in row.pattern or row.pattern.endswith(_OUTSIDE)


def _short(golden: Recording) -> bool:
    """Cases with few shapes and layers to compile."""
    return golden.case.name in ("encoder/window_odd", "encdec/qwen2", "encdec/bfloat16")


def _compiled_flex(golden: Recording) -> bool:
    """Those where torch's compiled kernel is right: torch 2.13 reads what nobody wrote where head_dim is 8 or 16 and
    the processor has no AVX-512."""
    return _short(golden) and _compiled_as_it_is(golden.case.config.head_dim)


@cache
def _compiled_as_it_is(head_dim: int) -> bool:
    draw = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, length, head_dim, generator=draw) for length in (3, 8))
    mask = torch.zeros(1, 1, 3, 8)
    one, other = (_by_flex(function, query, key, key, mask, 1.0)[0] for function in (flex_attention, _compile()))
    return torch.allclose(one, other, rtol=1e-4, atol=1e-4)


def _compile() -> Any:
    return torch.compile(flex_attention, dynamic=False)


VARIATIONS = (
    Variation("eager", "our implementation as it is", ours()),
    Variation("sdpa", "torch's scaled_dot_product_attention", ours(backend="sdpa")),
    Variation("flex", "torch's flex_attention, not compiled",
        ours(attending("flex", _flex, materialise=False), run={"backend": pb.FLEX}, shows=_unfused)),
    Variation("flex_compiled", "torch's flex_attention, compiled",
        ours(attending("flex_compiled", _flex_compiled, materialise=False), run={"backend": pb.FLEX}, shows=_unfused),
        _compiled_flex, slow=True),
    Variation("compiled", "every layer compiled", ours(compiled, run={"backend": pb.COMPILED}, shows=outside_of_layers),
        _short, slow=True),
)  # fmt: skip
