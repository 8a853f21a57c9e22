"""How far float32 may drift while it adds: the one thing about a sum that depends on its length and order.

An addition rounds its partial sum, so drift is counted from partial sums, in roundings (multiples of half a spacing).
Roundings of unlike terms are independent and grow with a root; terms that are alike round the same way and add up.
"""

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Array

LOOKS = 8
"""Partial sums looked at on the way, at most; between two looks they are interpolated."""
_SHORTEST = 32
"""Terms between two looks, at least."""
_LONG = 512
"""Terms from which on a sum is long."""
_TINY = 1e-30
"""Below this, some of a sum of float32 squares may have been lost."""
_CLOSE = 2.0**-21
"""Relative distance of twins."""


def dot_products(a: Array, b: Array) -> tuple[Array, Array]:
    """`a[..., m, k] @ b[..., k, n]` in float64, and its squared partial sums plus squared products, each `[..., m, n]`.

    Between two looks partial sums are a walk between known ends, of steps in any order: on average its squares sum to
    those of the ends, each for half of the way, plus a sixth of the squared products for every step. Counted from the
    first product or from the last, whichever is more. The squared products may be float32's: they need no more.
    """
    terms, look = a.shape[-1], _terms_between_looks(a.shape[-1])
    drift = np.asarray((1 + min(look, terms) / 6) * _squared(a, b), np.float64)
    a, b = FLOAT64.cast(a), FLOAT64.cast(b)
    partial, product = np.zeros_like(drift), np.empty_like(drift)
    looked, squares = np.zeros_like(drift), np.zeros_like(drift)
    for start in range(0, terms, look):
        if start:
            looked += partial
            squares += np.multiply(partial, partial, out=product)
        np.matmul(a[..., start : start + look], b[..., start : start + look, :], out=product)
        partial += product
    looks = max(0, -(-terms // look) - 1)
    # From the last product on, a partial sum is what is left of the total: squared, this much more.
    looked *= -2
    looked += looks * partial
    looked *= partial
    squares += np.maximum(looked, 0, out=looked)
    squares *= look
    drift += squares
    np.multiply(partial, partial, out=product)
    product *= (terms - looks * look) / 2
    drift += product
    return partial, drift


def _terms_between_looks(terms: int) -> int:
    return max(_SHORTEST, -(-terms // LOOKS))


def _squared(a: Array, b: Array) -> Array:
    """`a^2 @ b^2`, in float32 unless it comes near either end of its range.

    In long sums it hardly counts beside the partial sums: there the mean square of either side will do.
    """
    if a.shape[-1] >= _LONG:
        both = (a, -1), (b, -2)
        rows, columns = (np.square(side).sum(axis=axis, dtype=np.float64, keepdims=True) for side, axis in both)
        return np.asarray(rows * columns / a.shape[-1])
    if a.dtype == b.dtype == np.float32:
        with np.errstate(all="ignore"):
            product = np.square(a) @ np.square(b)
        if product.size and _TINY < product.min() <= product.max() < np.inf:
            return np.asarray(product)
    return np.asarray(np.square(FLOAT64.cast(a)) @ np.square(FLOAT64.cast(b)))


def twins(terms: Array) -> Array:
    """What share of `terms[..., k]` is not 0 and, but for a few roundings, as large as another: `[...]`, 0 to 1.

    Twins round the same way: where most are, errors grow with their number and not with its root.
    """
    size = np.sort(np.abs(terms), axis=-1)
    close = (size[..., 1:] > 0) & (np.diff(size, axis=-1) <= _CLOSE * size[..., 1:])
    return np.asarray(np.count_nonzero(close, axis=-1) / max(1, terms.shape[-1]))


def same_sign_sum(terms: Array) -> Array:
    """Roundings of the sum of `terms[..., k]`, none negative, relative to it, in whatever order: `[...]`.

    Half of `sqrt(n / 3)` for n additions, since a rounding is about half of its bound and squared partial sums in
    random order come to a third of the squared total each; or, where it is more, what float32 really loses in one of
    four orders, since terms that are alike round the same way.
    """
    exponent = np.frexp(terms.max(axis=-1, keepdims=True, initial=0))[1]
    terms = np.ldexp(FLOAT64.cast(terms), -exponent)
    total = terms.sum(axis=-1)
    narrow = terms.astype(np.float32)
    lost = np.abs(_in_lanes(narrow[..., ::-1], 1) - total)
    for lanes in (1, 8, 16):
        lost = np.maximum(lost, np.abs(_in_lanes(narrow, lanes) - total))
    relative = np.divide(lost, total, out=np.zeros_like(total), where=total > 0)
    additions = np.maximum(np.count_nonzero(terms, axis=-1) - 1, 0)
    return np.asarray(np.maximum(np.sqrt(additions / 12), relative * 2.0**24))


def _in_lanes(terms: Array, lanes: int) -> Array:
    """The sum of float32 terms, every so many of them in one running sum and these after one another."""
    missing = np.zeros((*terms.shape[:-1], -terms.shape[-1] % lanes), terms.dtype)
    columns = np.concatenate([terms, missing], axis=-1).reshape(*terms.shape[:-1], -(-terms.shape[-1] // lanes), lanes)
    running = np.add.accumulate(columns, axis=-2, dtype=np.float32)[..., -1, :]
    return np.asarray(np.add.accumulate(running, axis=-1, dtype=np.float32)[..., -1])
