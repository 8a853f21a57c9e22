"""Every op that a graph may name, by torch's name of it, with what computes it and what kind it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from qwen3_spec.aten import choices, made, moves, pointwise, sums, windows


class Kind(Enum):
    """What a rounding can do to an op's result."""

    MOVE = "moves values, exact"
    CHOICE = "chooses by comparison, exact but where numbers are near"
    MADE = "made of sizes and numbers"
    POINT = "rounds each element by itself"
    SUM = "adds many numbers"
    SIZE = "a number of the graph's own, no tensor"


class Kernel(NamedTuple):
    """What computes an op: `compute(*operands)`, with `Numbers` first where `takes_numbers`."""

    kind: Kind
    compute: Callable[..., Any]
    takes_numbers: bool = False


def _rows(kind: Kind, ops: Mapping[str, Callable[..., Any]], *, numbers: bool = False) -> dict[str, Kernel]:
    return {name: Kernel(kind, compute, numbers) for names, compute in ops.items() for name in names.split()}


KERNELS: Mapping[str, Kernel] = {
    **_rows(
        Kind.MOVE,
        {
            "view _unsafe_view reshape": moves.view,
            "transpose": moves.transpose,
            "permute": moves.permute,
            "t": moves.t,
            "unsqueeze": moves.unsqueeze,
            "squeeze": moves.squeeze,
            "expand": moves.expand,
            "repeat": moves.repeat,
            "repeat_interleave": moves.repeat_interleave,
            "slice": moves.slice_,
            "select": moves.select,
            "select_scatter": moves.select_scatter,
            "slice_scatter": moves.slice_scatter,
            "index": moves.index,
            "index_put": moves.index_put,
            "index_select": moves.index_select,
            "gather": moves.gather,
            "scatter": moves.scatter,
            "embedding": moves.embedding,
            "cat concat": moves.cat,
            "stack": moves.stack,
            "split split_with_sizes": moves.split,
            "unbind": moves.unbind,
            "getitem": moves.getitem,
            "unfold": moves.unfold,
            "flip": moves.flip,
            "roll": moves.roll,
            "constant_pad_nd": moves.constant_pad,
            "pad": moves.pad,
            "copy": moves.copy,
            "clone alias contiguous detach lift_fresh_copy _to_copy type_as": moves.same,
            "view_as_complex": moves.view_as_complex,
            "view_as_real": moves.view_as_real,
            "where": moves.where,
            "masked_fill": moves.masked_fill,
            "triu": moves.triu,
            "tril": moves.tril,
            "neg": np.negative,
            "abs": np.abs,
            "relu": pointwise.relu,
            "clamp clamp_min": pointwise.clamp,
            "maximum max.other": np.maximum,
            "minimum min.other": np.minimum,
        },
    ),
    **_rows(
        Kind.CHOICE,
        {
            "topk": choices.topk,
            "sort": choices.sort,
            "argsort": choices.argsort,
            "argmax": choices.argmax,
            "argmin": choices.argmin,
            "cummax": choices.cummax,
            "max.dim": choices.max_along,
            "min.dim": choices.min_along,
            "max amax": choices.largest,
            "min amin": choices.smallest,
            "max_pool1d max_pool2d max_pool3d": windows.max_pool,
            "le": np.less_equal,
            "lt": np.less,
            "ge": np.greater_equal,
            "gt": np.greater,
            "eq": np.equal,
            "ne": np.not_equal,
            "isnan": np.isnan,
            "isfinite": np.isfinite,
            "logical_not": np.logical_not,
            "logical_and": np.logical_and,
            "logical_or": np.logical_or,
            "bitwise_not": np.invert,
            "bitwise_and __and__": pointwise.logical(np.logical_and, np.bitwise_and),
            "bitwise_or __or__": pointwise.logical(np.logical_or, np.bitwise_or),
            "bitwise_xor __xor__": pointwise.logical(np.logical_xor, np.bitwise_xor),
            "sign": pointwise.sign,
            "floor": np.floor,
            "ceil": np.ceil,
            "round": np.round,
        },
    ),
    **_rows(Kind.CHOICE, {"any": sums.any_, "all": sums.all_}, numbers=True),
    **_rows(
        Kind.MADE,
        {
            "arange": made.arange,
            "full": made.full,
            "zeros": made.zeros,
            "ones": made.ones,
            "eye": made.eye,
            "scalar_tensor": made.scalar,
            "new_full": made.new_full,
            "new_zeros new_empty": made.new_zeros,
            "new_ones": made.new_ones,
            "full_like fill": made.full_like,
            "zeros_like zero empty_like": made.zeros_like,
            "ones_like": made.ones_like,
        },
        numbers=True,
    ),
    **_rows(
        Kind.POINT,
        {
            "add": pointwise.add,
            "sub": pointwise.sub,
            "rsub": pointwise.rsub,
            "diff": pointwise.diff,
            "mul": pointwise.mul,
            "div": pointwise.div,
            "floor_divide": np.floor_divide,
            "remainder": pointwise.remainder,
            "pow": pointwise.pow_,
            "square": np.square,
            "sqrt": np.sqrt,
            "rsqrt": pointwise.rsqrt,
            "reciprocal": pointwise.reciprocal,
            "exp": np.exp,
            "exp2": np.exp2,
            "expm1": np.expm1,
            "log": np.log,
            "log1p": np.log1p,
            "cos": np.cos,
            "sin": np.sin,
            "acos": np.arccos,
            "tanh": np.tanh,
            "polar": pointwise.polar,
        },
    ),
    **_rows(
        Kind.POINT,
        {
            "sigmoid": pointwise.sigmoid,
            "silu": pointwise.silu,
            "gelu": pointwise.gelu,
            "erf": pointwise.erf,
            "erfinv": pointwise.erfinv,
            "softplus": pointwise.softplus,
        },
        numbers=True,
    ),
    **_rows(
        Kind.SUM,
        {
            "linear": sums.linear,
            "matmul bmm mm mv dot": sums.matmul,
            "addmm baddbmm": sums.addmm,
            "einsum": sums.einsum,
            "sum": sums.total,
            "mean": sums.mean,
            "var": sums.variance,
            "linalg_vector_norm": sums.vector_norm,
            "softmax _softmax": sums.softmax,
            "log_softmax _log_softmax": sums.log_softmax,
            "logsumexp": sums.logsumexp,
            "cumsum": sums.cumsum,
            "layer_norm": sums.layer_norm,
            "group_norm": sums.group_norm,
            "_native_batch_norm_legit_no_training": sums.batch_norm,
            "rms_norm": sums.rms_norm,
            "conv1d conv2d conv3d": windows.convolution,
            "avg_pool1d avg_pool2d avg_pool3d": windows.mean_pool,
            "_fft_c2c": sums.fft,
        },
        numbers=True,
    ),
    **_rows(
        Kind.SUM,
        {
            "index_add": moves.index_add,
            "scatter_add": moves.scatter_add,
            "scatter_reduce": moves.scatter_reduce,
        },
    ),
    **_rows(
        Kind.SIZE,
        {
            "sym_size": lambda x, axis: x.shape[axis],
            "size_add": lambda a, b: a + b,
            "size_sub": lambda a, b: a - b,
            "size_mul": lambda a, b: a * b,
            "size_floordiv": lambda a, b: a // b,
            "size_mod": lambda a, b: a % b,
            "size_neg": lambda a: -a,
            "size_min": min,
            "size_max": max,
        },
    ),
}
"""An overload with a row of its own ("max.dim") goes before its op's ("max")."""


@lru_cache(1024)  # names come from files
def kernel_of(op: str) -> Kernel | None:
    """What computes an op, by its name with or without its overload ("add.Tensor"); None for one that is not known."""
    return KERNELS.get(op) or KERNELS.get(op.partition(".")[0])
