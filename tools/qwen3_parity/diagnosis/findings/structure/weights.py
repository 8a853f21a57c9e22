"""What a linear's numbers say of the weight that made them, when no tensor of the checkpoint did."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product as every

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.findings.finding import Finding
from qwen3_parity.diagnosis.findings.product import MOST, Form, Product, by_held
from qwen3_parity.diagnosis.findings.structure.as_large import as_large
from qwen3_parity.diagnosis.findings.structure.block_numbers import block_scaled, block_shifted
from qwen3_parity.diagnosis.findings.structure.blocks import blocks, rounded_both, rounded_inputs, scales_across
from qwen3_parity.diagnosis.findings.structure.clamped_inputs import clamped_inputs
from qwen3_parity.diagnosis.findings.structure.decoded import as_far_as, decoded
from qwen3_parity.diagnosis.findings.structure.misread import misread
from qwen3_parity.diagnosis.findings.structure.narrowed import narrowed, vector
from qwen3_parity.diagnosis.findings.structure.orders import columns_permuted, reordered, rows, rows_are, rows_replaced
from qwen3_parity.diagnosis.findings.structure.rank import low_rank
from qwen3_parity.diagnosis.findings.structure.scales import added, column_scaled, factor, row_scaled, row_shifted
from qwen3_parity.diagnosis.findings.structure.tables import other_table
from qwen3_parity.diagnosis.findings.wrong_tap import WrongTap
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.linear_fitted import runs
from qwen3_parity.mistakes.rounding import ROUNDED

_TOLD, _AFTERWARDS, _ANY = 0.95, 0.5, 0.05
"""What is told by a weight that positions determine, by one that was loaded as stored, by one that always fits."""
ANOTHERS = "weight.other_tensor"
"""What a weight is called that is another tensor of the checkpoint, as it is or in a form that is known."""
_ALIKE = 0.9
"""The least cosine of a weight as loaded with the tensor that it was made of."""
UNKNOWN = "weight.unknown"
"""What a weight is called that is another one in no form that is known."""
_ZEROS = 0.01
"""The part of the wrong numbers that may be zero: a weight makes none."""
_SAID = list[tuple[Mapping[str, Array], dict[tuple[str, bytes, tuple[int, ...]], "Finding | None"]]]()
"""Of the last checkpoint that was asked about what was said of each weight."""
_CLOSER = {False: 1 / 6, True: 1 / 4}
"""The part of a narrow type's limits that is looked at first, by whether its input is computed."""
_FORMS: tuple[Form, ...] = (
    narrowed,
    factor,
    added,
    blocks,
    rounded_inputs,
    rounded_both,
    scales_across,
    clamped_inputs,
    rows,
    rows_replaced,
    columns_permuted,
    misread,
    other_table,
    decoded,
    row_scaled,
    row_shifted,
    column_scaled,
    block_shifted,
    block_scaled,
    low_rank,
    as_far_as,
    as_large,
)
"""Those with fewer free numbers first: what comes later fits whatever comes before it."""
_OF_INPUTS = (
    "structure.rounded_inputs",
    "structure.rounded_both",
    "structure.clamped_inputs",
    "structure.input_channels",
)
_EXPERTS = 16
"""Experts of which each is looked at by itself where all of them have no form."""
_TURNED = "; a row is what makes an output, by x @ W"
_AS_STORED = ", though what was loaded is the checkpoint's by its digest: what becomes of it afterwards?"


def weight_structure(tap: WrongTap) -> Finding | None:
    """The structure with the fewest free numbers that gives a linear's numbers at every position."""
    product = tap.product()
    if product is not None and product.by_positions is not None and not product.wrong.any():
        product = product.by_positions  # the rows that were recorded are right
    if product is None or not np.isfinite(product.weight).all():
        return None
    # A narrow run's limits hide most of what few bits leave: its roundings by themselves stay far below them.
    if product.held is None and product.roundoff:
        closer = replace(product, headroom=_CLOSER[product.hidden] * product.headroom)
        if closer.wrong.any() and (finding := _in_a_form(closer)) is not None:
            return finding
    return _structure(product) if product.wrong.any() else None


def structure_of(name: str, held: Array, tensors: Mapping[str, Array]) -> Finding | None:
    """The same of a weight by its first rows as they were loaded; None where nothing can be said of such a one.

    Of experts' weights these are the rows of all of them. Several ask of the same weight: what was said is remembered.
    """
    if not _SAID or _SAID[0][0] is not tensors:
        _SAID[:] = [(tensors, {})]
    said, key = _SAID[0][1], (name, hashlib.sha256(held.tobytes()).digest(), held.shape)
    if key not in said:
        said[key] = _structure_of(name, held, tensors)
    return said[key]


def _structure_of(name: str, held: Array, tensors: Mapping[str, Array]) -> Finding | None:
    stored = tensors[name]
    if (same := _same(name, held, tensors)) is not None:
        return Finding(ANOTHERS, f"it is {same}", 1.0)
    if stored.shape == held.shape and held.ndim == 1 and held.size:
        fits = vector(np.asarray(stored, np.float64), held)
        return None if fits is None else Finding(*fits, 1.0)
    if stored.ndim < 2 or held.ndim < 2 or not held.size:
        return None
    finding = _either_way(name, held, stored, tensors)
    if finding is None or finding.weight == 1 or held.ndim < 3 or not 1 < len(held) <= _EXPERTS:
        return finding
    each = [_either_way(name, held[i : i + 1], stored[i : i + 1], tensors) for i in range(len(held))]
    of_each = _of_experts(each)
    return of_each if of_each is not None and of_each.weight > finding.weight else finding


def _either_way(name: str, held: Array, stored: Array, tensors: Mapping[str, Array]) -> Finding | None:
    """What is said of a weight whose rows make its outputs, or its columns, as the reference computes x @ W."""
    turned = held.swapaxes(-1, -2), stored.swapaxes(-1, -2)
    return _structure(*filter(None, (_by_rows(name, *each, tensors) for each in ((held, stored), turned))))


def _of_experts(each: Sequence[Finding | None]) -> Finding | None:
    """What each expert's weight is, where all are known; it is called what the fewest are, which stand out."""
    groups = dict[tuple[str, str], list[int]]()
    for number, finding in enumerate(each):
        if finding is None or finding.name == UNKNOWN:
            return None
        says = finding.says.replace(_TURNED, "").partition("; told by")[0]
        groups.setdefault((finding.name, says), []).append(number)
    ordered = sorted(groups.items(), key=lambda group: len(group[1]))
    says = "; ".join(f"expert{'s' * (len(at) > 1)} {ranges(at)}: {words}" for (_, words), at in ordered)
    return Finding(ordered[0][0][0], says, min(finding.weight for finding in each if finding is not None))


def _by_rows(name: str, held: Array, stored: Array, tensors: Mapping[str, Array]) -> Product | None:
    """What each input by itself makes of a weight whose rows each make an output; None of what is no number."""
    rows = held.reshape(-1, held.shape[-1])
    weight = np.asarray(stored.reshape(-1, stored.shape[-1])[: len(rows)], np.float64)
    if weight.shape != rows.shape or not np.isfinite(weight).all() or not np.isfinite(rows).all():
        return None
    nothing, empty = np.zeros(len(weight)), np.zeros((0, len(weight)))
    no_inputs = np.zeros((0, weight.shape[1]))
    product = Product(
        name, no_inputs, weight, nothing, empty, empty, headroom("op", "linear").max, loaded=False, tensors=tensors
    )
    product = by_held(product, rows)
    return None if product.held is None else product


def _structure(*products: Product) -> Finding | None:
    """What the first form says that fits: of the weight as it was loaded, or else of what was recorded.

    The `products` are of one weight, whose rows make its outputs, or its columns.
    """
    if not products:
        return None
    for each in (products, [*filter(None, [products[0].by_positions])]):
        if (finding := _in_a_form(*each)) is not None:
            return finding
    return _any_weight(products[0]) if products[0].held is None else _other_weight(*products)


def _in_a_form(*products: Product) -> Finding | None:
    for form, product in every(_FORMS, products):
        if (fits := form(product)) is not None:
            name, says, share = fits
            after = _AS_STORED if product.loaded and name not in _OF_INPUTS else ""
            turned = "" if product is products[0] else _TURNED
            return Finding(name, f"{says}{_told_by(product)}{after}{turned}", share)
    return None


def _same(name: str, held: Array, tensors: Mapping[str, Array]) -> str | None:
    """The other tensor of the checkpoint whose numbers a parameter's first rows are."""
    shape = tensors[name].shape
    if not np.ndim(held):
        return None
    alike = (another for another, values in tensors.items() if another != name and values.shape == shape)
    return next((another for another in alike if np.array_equal(tensors[another][: len(held)], held)), None)


def _anothers(product: Product, held: Array) -> Finding | None:
    """Another tensor of the checkpoint in a form that is known."""
    size = product.tensors[product.name].shape if product.name in product.tensors else ()
    for name, values in product.tensors.items():
        if name == product.name or values.shape != size or values.ndim < 2:
            continue
        rows = np.asarray(values.reshape(-1, values.shape[-1])[: len(held), : held.shape[1]], np.float64)
        if np.vdot(rows, held) < _ALIKE * np.linalg.norm(rows) * np.linalg.norm(held):
            continue
        form = _in_a_form(replace(product, weight=rows, name=name))
        how = "in no form that is known" if form is None else form.says
        return Finding(ANOTHERS, f"its weight is made of {name}: {how}", _TOLD)
    return None


def _in_other_order(*products: Product) -> Finding | None:
    """The weight's own rows in another order, in a form that is known, as experts that are exchanged in few bits."""
    ordered = [(order, product) for product in products if (order := _order(product)) is not None]
    for order, product in ordered:
        form = _in_a_form(replace(product, weight=product.weight[order]))
        if form is not None:
            name, says = reordered(order)
            turned = "" if product is products[0] else _TURNED
            return Finding(name, f"{says}; so ordered, {form.says}{turned}", 1.0)
    return Finding(*reordered(ordered[0][0]), 1.0) if ordered else None


def _order(product: Product) -> Array | None:
    """Which row each row as loaded is nearest to; None where that is itself, or none."""
    held = np.asarray(product.held)
    sizes = (np.maximum(np.linalg.norm(rows, axis=1), np.finfo(np.float64).tiny) for rows in (held, product.weight))
    cosines = (held @ product.weight.T) / np.outer(*sizes)
    order, rows = cosines.argmax(1), np.arange(len(held))
    if np.array_equal(order, rows) or len(np.unique(order)) < len(order) or cosines[rows, order].min() < _ALIKE:
        return None
    return np.asarray(order)


def _told_by(product: Product) -> str:
    if product.held is None:
        return f"; told by {_counted(product.positions)} of {product.weight.shape[1]} inputs"
    whole = product.tensors.get(product.name, product.weight).size == product.held.size
    return "" if whole else f"; told by its first {len(product.held)} rows as loaded"


def _other_weight(product: Product, *turned: Product) -> Finding:
    """A weight that the recording has, in no form that is known of it."""
    held = np.asarray(product.held)
    for finding in (_anothers(product, held), _in_other_order(product, *turned)):
        if finding is not None:
            return finding
    outputs = np.flatnonzero(product.wrong)
    weight, change = product.weight[outputs], (held - product.weight)[outputs]
    size = float(np.sqrt(np.square(change).mean() / np.square(weight).mean()))
    by = f"another one by {size:.2g} of its size, in no form that is known"
    if len(outputs) < len(product.weight):
        return Finding(UNKNOWN, f"{rows_are(outputs)} as loaded {by}; the rest are the checkpoint's", _TOLD)
    return Finding(UNKNOWN, f"its weight is not the checkpoint's: as loaded it is {by}", _TOLD)


def _counted(positions: int) -> str:
    return f"{positions} position{'s' if positions != 1 else ''}"


def _any_weight(product: Product) -> Finding | None:
    """A weight that more positions tell than it has columns; or that they cannot tell, so that one fits."""
    outputs = np.flatnonzero(product.wrong)
    x = np.unique(product.x, axis=0)  # what comes again says nothing new
    positions, columns = int(np.linalg.matrix_rank(x)), x.shape[1]
    fewer = positions < columns or len(x) == columns
    if not _everywhere(product.part(outputs=outputs)):
        return None
    if fewer and (product.loaded or product.hidden):
        return None
    change = np.linalg.lstsq(product.x, product.missing, rcond=None)[0].T
    if not fewer and not product.share(weight=product.weight + change):
        return None
    if product.loaded:
        says = (
            "another weight gives these numbers at every position, though what was loaded is the checkpoint's by its "
            "digest: what becomes of it afterwards?"
        )
        return Finding("fit.weight", says, _AFTERWARDS)
    numbers = f"{positions if fewer else len(x)} different positions{' cannot' if fewer else ''} tell {columns} weights"
    if fewer and product.loaded is None:
        return Finding("fit.weight", f"a weight of no tensor of the checkpoint would fit, too: {numbers}", _ANY)
    where = "" if len(outputs) == len(product.weight) else f" in output channels {runs(outputs)}"
    size = float(np.sqrt(np.square(change).mean() / np.square(product.weight).mean()))
    by = "by its digest; its form is unknown" if fewer else f"by {size:.2g} of its size, in no form that is known"
    return Finding(UNKNOWN, f"its weight is not the checkpoint's{where}: another one {by}; {numbers}", _TOLD)


def _everywhere(product: Product) -> bool:
    """Whether numbers can come of a weight: wrong at nearly all positions, of no narrower type, and not dropped."""
    wrong = np.abs(product.missing) > product.limits
    values: Array = product.y[wrong].astype(np.float32)
    narrow = any((rounded(values) == values).all() for _, rounded in ROUNDED)
    return bool(wrong.any(1).mean() > MOST and not narrow and (values == 0).mean() < _ZEROS)
