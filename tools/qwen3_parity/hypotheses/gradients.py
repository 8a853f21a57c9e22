"""Wrong ways back: a use that passes nothing, a derivative that is cut short, sums over groups, factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from qwen3_golden import Place, pb
from qwen3_parity.hypotheses.factors import named
from qwen3_parity.hypotheses.gradients_inside import activation, groups, rotation
from qwen3_parity.hypotheses.gradients_loss import loss
from qwen3_parity.hypotheses.hypothesis import Hypothesis, Library
from qwen3_parity.hypotheses.observed import factor_between, seen, unit_of
from qwen3_spec.heads import split_heads
from qwen3_spec.ops import OPS
from qwen3_spec.ops.embedding import embedding_parts
from qwen3_spec.ops.linear import added
from qwen3_spec.ops.rms_norm import normalised
from qwen3_spec.rounding import as_unit
from qwen3_spec.site import Result, Site

_SUM = "a value that is read at several places gets the sum of what they pass back"
_PARAMETERS = ("weight_gradient", "bias_gradient", "norm_weight_gradient", "embedding_gradient")


def cut(site: Site) -> Iterator[Hypothesis]:
    """Nothing is passed back, or too much: detached, scaled, added twice."""
    says, fix = "passes nothing back: the graph is cut here", "no detach(), no no_grad(), no .data on the way"
    yield Hypothesis("gradient.cut", says, fix, _cut)
    if site.place.op in _PARAMETERS:
        says, fix = "is added twice", "zero gradients between steps; no layer may be gone back through twice"
        yield Hypothesis("gradient.twice", says, fix, partial(_times, 2.0))
    what = seen(site)
    if what is not None and what.unit is not None:
        factor = factor_between(what.truth[what.wrong], what.actual[what.wrong].astype(np.float64))
        if factor != 0:
            words = named(factor, site.config) or f"{factor:.7g}"
            fix = "divide by what was counted: labels of the whole batch, not micro-batches"
            yield Hypothesis("gradient.scaled", f"is scaled by {words}", fix, partial(_times, factor), 2)


def _times(factor: float, site: Site) -> Result:
    result = OPS[site.place.op].truth(site)
    return factor * result[0], abs(factor) * unit_of(result)


def uses(site: Site) -> Iterator[Hypothesis]:
    """One use of a value that several read passes nothing back."""
    op, count = site.place.op, len(site.inputs)
    if op in ("weight_gradient", "norm_weight_gradient") and count == 4:
        for name, part in (("encoder's states", slice(0, 2)), ("decoder's own", slice(2, 4))):
            yield _missing(f"lacks what its use on the {name} passes back", partial(_some_inputs, part))
    elif op == "bias_gradient" and count == 2:
        for name, part in (("encoder's states", slice(0, 1)), ("decoder's own", slice(1, 2))):
            yield _missing(f"lacks what its use on the {name} passes back", partial(_some_inputs, part))
    elif op == "linear_input_gradient" and count > 1:
        for index, name in enumerate(site.names):
            reader = name.rpartition(".")[2]
            yield _missing(f"lacks what {reader} passes back", partial(_without, index))
    elif op == "norm_input_gradient" and count == 3:
        yield _missing("lacks what the residual passes back", partial(_some_inputs, slice(1, None)))
        yield _missing("lacks what the branch passes back", _residual_alone)


def _missing(says: str, compute: Callable[[Site], Result | None]) -> Hypothesis:
    return Hypothesis("gradient.part_missing", says, _SUM, compute, 1)


def _some_inputs(part: slice, site: Site) -> Result | None:
    if len(site.inputs[part]) == len(site.inputs):
        return None
    return OPS[site.place.op].truth(replace(site, inputs=site.inputs[part], names=site.names[part]))


def _cut(site: Site) -> Result:
    nothing = 0 * OPS[site.place.op].truth(site)[0]
    return nothing, as_unit(nothing)


def _without(index: int, site: Site) -> Result | None:
    if index >= len(site.inputs):
        return None
    kept = [i for i in range(len(site.inputs)) if i != index]
    assert isinstance(site.place, Place)
    spot = replace(site.place, parameters=tuple(site.place.parameters[i] for i in kept))
    return OPS[spot.op].truth(replace(site, place=spot, inputs=tuple(site.inputs[i] for i in kept)))


def _residual_alone(site: Site) -> Result | None:
    if len(site.inputs) != 3:
        return None
    return np.asarray(site.inputs[0], np.float64), as_unit(np.abs(site.inputs[0]))


def embedding(site: Site) -> Iterator[Hypothesis]:
    """The matrix of several uses without one of them, and the padding token's row."""
    places = {"encoder": "encoder's look-up", "decoder": "decoder's look-up", "head": "head, to which it is tied"}
    for part in embedding_parts(site):

        def compute(one: Site, without: str = part) -> Result | None:
            rest = [value for name, value in embedding_parts(one).items() if name != without]
            return added(rest) if rest else None

        yield Hypothesis("gradient.tied_part", f"lacks what the {places[part]} passes back", _SUM, compute)
    has = site.case.training.HasField("padding_idx")
    says = "trains the padding token's row, too" if has else "does not train the padding token's row"
    fix = "looking up pad_token_id trains nothing, a tied head trains its row all the same"
    candidates = (None,) if has else (0, 1, 2, 3)
    for pad in candidates:
        yield Hypothesis("gradient.padding_idx", says, fix, partial(_padded, pad))
    if has:
        says = "keeps the padding token's row from being trained by the head as well"
        yield Hypothesis("gradient.padding_idx", says, fix, _row_zeroed, 1)


def _padded(pad: int | None, site: Site) -> Result:
    assert isinstance(site.case, pb.Case)
    case = pb.Case()
    case.CopyFrom(site.case)
    case.training.ClearField("padding_idx")
    if pad is not None:
        case.training.padding_idx = pad
    return OPS[site.place.op].truth(replace(site, case=case))


def _row_zeroed(site: Site) -> Result:
    y, noise = OPS[site.place.op].truth(site)
    y = y.copy()
    y[site.case.training.padding_idx] = 0
    return y, unit_of((y, noise))


def norm(site: Site) -> Iterator[Hypothesis]:
    """RMSNorm's derivative with its root taken for a constant."""
    says = "takes the root mean square of RMSNorm for a constant: the mean term is missing"
    fix = "dx = (dn - n mean(dn n)) / root, dn = weight dy, n = x / root"
    yield Hypothesis("gradient.norm_mean", says, fix, _norm_without_mean, everywhere=True)


def _norm_without_mean(site: Site) -> Result | None:
    if site.place.op == "norm_input_gradient":
        *skip, dy, x = (np.asarray(one, np.float64) for one in site.inputs)
        weight = np.asarray(site.checkpoint[site.place.parameters[0]], np.float64)
        y = weight * dy * normalised(x, site.config.rms_norm_eps)[1]
        return added([(one, 0 * one) for one in skip] + [(y, as_unit(8 * np.abs(y)))])
    if site.place.op != "head_gradient" or not site.names[0].endswith("_norm"):
        return None
    name = site.place.name.removeprefix("gradient.").replace("encoder_k_proj", "k_proj").replace("_proj", "_norm")
    x = split_heads(np.asarray(site.inputs[1], np.float64), site.config.head_dim)
    y = np.asarray(site.checkpoint[f"{name}.weight"]) * site.inputs[0] * normalised(x, site.config.rms_norm_eps)[1]
    return y.reshape(site.inputs[1].shape), as_unit(8 * np.abs(y)).reshape(site.inputs[1].shape)


def softmax(site: Site) -> Iterator[Hypothesis]:
    """The softmax's derivative without the sum over the row."""
    says, fix = "takes the softmax's sum for a constant: dy p without the sum term", "ds = p (dp - sum(dp p))"
    yield Hypothesis("gradient.softmax_sum", says, fix, _softmax_without_sum)


def _softmax_without_sum(site: Site) -> Result:
    dy, probs = (np.asarray(one, np.float64) for one in site.inputs)
    return dy * probs, as_unit(4 * np.abs(dy * probs))


GRADIENTS: Mapping[str, tuple[Library, ...]] = {
    "loss": (loss,),
    "loss_gradient": (loss, cut),
    "linear_input_gradient": (uses, cut),
    "norm_input_gradient": (norm, uses, cut),
    "swiglu_gradient": (activation, cut),
    "context_gradient": (groups, cut),
    "softmax_gradient": (softmax, cut),
    "scores_gradient": (groups, cut),
    "head_gradient": (norm, rotation, groups, cut),
    "weight_gradient": (uses, cut),
    "bias_gradient": (uses, cut),
    "norm_weight_gradient": (uses, cut),
    "embedding_gradient": (embedding, cut),
}
"""Which mistakes are thought of for which op of the way back."""
