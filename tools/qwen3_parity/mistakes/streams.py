"""The residual stream on another way: norms at other places of the block, skips over layers, scaled embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from qwen3_golden import Array, pattern_of
from qwen3_parity.mistakes.formulas import Formula, inputs
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.normed import norm
from qwen3_parity.mistakes.observed import asks_for_all, likely, observe
from qwen3_parity.mistakes.ranks import PLAIN, RARE
from qwen3_spec.site import Result, Site

_BLOCK = "stream + branch(norm(stream)): input_layernorm in front of attention, post_attention_layernorm of the MLP"
_FIRST, _SECOND = "input_layernorm", "post_attention_layernorm"
_Step = Callable[[Site], Result | None]


def _left_out(site: Site) -> Result | None:
    return site.inputs[0], None


def _branch_normed(which: str, site: Site) -> Array | None:
    stream, branch = inputs(site)
    normed_branch = _normed(which, site, branch)
    return None if normed_branch is None else stream + normed_branch


def _sum_normed(which: str, site: Site) -> Array | None:
    stream, branch = inputs(site)
    return _normed(which, site, stream + branch)


def _normed(which: str, site: Site, x: Array) -> Array | None:
    """`x` by a norm of the site's layer."""
    prefix = pattern_of(site.place.name).partition("{layer}")[0] + str(site.place.layer)
    weight = site.checkpoint.get(f"{prefix}.{which}.weight")
    return None if weight is None else norm(site, x, weight)


_BLOCKS: tuple[tuple[str, Mapping[str, _Step]], ...] = (
    ("norms attention's output with post_attention_layernorm, and nothing in front of the MLP",
     {"attn_residual": Formula(partial(_branch_normed, _SECOND)), _SECOND: _left_out}),
    ("norms each branch's output and not its input",
     {_FIRST: _left_out, _SECOND: _left_out,
      "attn_residual": Formula(partial(_branch_normed, _FIRST)), "output": Formula(partial(_branch_normed, _SECOND))}),
    ("norms each sum and no branch's input: post-norm",
     {_FIRST: _left_out, _SECOND: _left_out,
      "attn_residual": Formula(partial(_sum_normed, _FIRST)), "output": Formula(partial(_sum_normed, _SECOND))}),
    ("norms each branch's input and its output too",
     {"attn_residual": Formula(partial(_branch_normed, _FIRST)), "output": Formula(partial(_branch_normed, _SECOND))}),
)  # fmt: skip
"""Other blocks: what becomes of the places of a layer, by the last part of their names."""


def blocks(site: Site) -> Iterator[Hypothesis]:
    """Blocks that norm at other places, thought of at the sum behind attention of a layer without a tap there."""
    if not asks_for_all() or not site.place.name.endswith("attn_residual"):
        return
    for says, steps in _BLOCKS:

        def compute(site: Site, steps: Mapping[str, _Step] = steps) -> Result | None:
            step = steps.get(site.place.pattern.rpartition(".")[2])
            return None if step is None else step(site)

        yield Hypothesis("norm.placement", says, _BLOCK, compute, PLAIN + 1, leaves=frozenset(steps))


def skips(site: Site) -> Iterator[Hypothesis]:
    """What else enters a layer, or the last norm, where the stream of the layer before belongs."""
    last = site.place.layer is None
    if not (site.place.name.endswith(".input") if not last else site.place.op == "rms_norm"):
        return
    yield from likely(site, observe(site), _skips(site))


def _skips(site: Site) -> Iterator[Hypothesis]:
    input_name, fix = pattern_of(site.names[0]), "the stream goes from layer to layer as it is"
    width = site.inputs[0].shape[-1]
    for says, factor in ((f"× sqrt({width})", width**0.5), (f"/ sqrt({width})", width**-0.5)):
        yield Hypothesis(
            "embedding.scaled", f"reads the embeddings {says}", fix, _of_stream(partial(_scaled, factor)), PLAIN + 1
        )
    for says, joined in (
        ("adds the embeddings once more", _with_embeddings),
        ("adds what entered the layer before", _with_input_before),
        ("is the mean of all layers' outputs so far", partial(_over_layers, True)),
        ("is the sum of all layers' outputs so far", partial(_over_layers, False)),
    ):
        yield Hypothesis("wiring.added_input", f"where {input_name} belongs: {says}", fix, _of_stream(joined), RARE)


def _of_stream(parts: Callable[[Site], list[Array] | None]) -> Formula:
    """The place with the sum of `parts(site)` as its stream."""

    def wrong(site: Site) -> Array | None:
        terms = parts(site)
        if terms is None or any(term.shape != site.inputs[0].shape for term in terms):
            return None
        stream = np.asanyarray(sum(terms), np.float64)
        return stream if site.place.op == "copy" else norm(site, stream, site.parameters["weight"])

    return Formula(wrong)


def _scaled(factor: float, site: Site) -> list[Array] | None:
    return [factor * site.inputs[0]] if site.names[0].endswith("embed_tokens") else None


def _tap(site: Site, name: str) -> Array | None:
    values = site.values.value(name, site.step)
    return None if values is None else values.astype(np.float64)


def _with_embeddings(site: Site) -> list[Array] | None:
    if site.names[0].endswith("embed_tokens") or site.place.layer == 0:
        return None
    embeddings = _tap(site, f"{site.stack}.layers.0.input")
    return None if embeddings is None else [site.inputs[0].astype(np.float64), embeddings]


def _with_input_before(site: Site) -> list[Array] | None:
    layer = _layers(site) - 1
    entered = None if layer < 0 else _tap(site, f"{site.stack}.layers.{layer}.input")
    return None if entered is None else [site.inputs[0].astype(np.float64), entered]


def _over_layers(mean: bool, site: Site) -> list[Array] | None:
    taps = [_tap(site, f"{site.stack}.layers.{n}.output") for n in range(_layers(site))]
    known = [tap / len(taps) if mean else tap for tap in taps if tap is not None]
    return known if len(known) > 1 and len(known) == len(taps) else None


def _layers(site: Site) -> int:
    """The layers before the site."""
    return site.config.num_hidden_layers if site.place.layer is None else site.place.layer
