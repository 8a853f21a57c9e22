"""The gradient of a parameter, and a loss, are told by the terms that count otherwise than they should.

It runs `findings.terms`, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from seeded import Compute, seeded, weights
from wrong_numbers import golden

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.diagnosis.findings import Finding, findings
from qwen3_parity.diagnosis.findings.of_site import wrong_tap
from qwen3_parity.diagnosis.judged import judged
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CAUSAL, TIED = "training/causal", "training/tied"
NORM = "gradient.decoder.layers.{layer}.input_layernorm.weight"
HEAD_NORM = "gradient.decoder.layers.{layer}.merged_attn.q_norm.weight"
Q = "gradient.decoder.layers.{layer}.merged_attn.q_proj.weight"
BIAS = "gradient.decoder.layers.{layer}.merged_attn.v_proj.bias"
SHARED, LOGITS = "gradient.shared.weight", "gradient.logits"


def said(case: str, place: str, wrong: Compute | None) -> list[Finding]:
    """What the numbers of a place in the first layer say."""
    candidate = seeded(case, {} if wrong is None else {place: wrong})
    evidence = TapJudge.of(candidate, weights(case), golden(case)).evidence(candidate[place.format(layer=0), 0])
    assert isinstance(evidence, Evidence)
    tap = wrong_tap(judged(evidence))
    assert tap is not None and tap.wrong.any() == (wrong is not None)
    return [part for part in findings(tap) if part.name.startswith("structure.")]


def changed(change: Callable[[Array, Site], Array]) -> Compute:
    def compute(site: Site) -> Result:
        y, unit = OPS[site.place.op].truth(site)
        return change(y, site), unit

    return compute


def rows(values: Array) -> Array:
    return np.asarray(values, np.float64).reshape(values.shape[0] * values.shape[1], -1)


def not_normalised(y: Array, site: Site) -> Array:
    dy, x = site.inputs
    return np.asarray((dy.astype(np.float64) * x.reshape(dy.shape)).reshape(-1, len(y)).sum(0))


def without_a_token(y: Array, site: Site) -> Array:
    dy, x = site.inputs
    return y - np.outer(dy[1, 2], x[1, 2])


def row_twice(y: Array, site: Site) -> Array:
    dy, x = site.inputs
    return y + rows(dy[1:]).T @ rows(x[1:])


def overwritten(first: bool) -> Callable[[Array, Site], Array]:
    """Of tokens of one id the last (or first) is all that its row gets, in each stack's look-up."""

    def change(y: Array, site: Site) -> Array:
        read = dict(zip(site.names, site.inputs, strict=True))
        every = np.zeros_like(y)
        for stack in ("encoder", "decoder"):
            if f"gradient.{stack}.embed_tokens" in read:
                dy, ids = rows(read[f"gradient.{stack}.embed_tokens"]), read[f"input.{stack}_input_ids"].reshape(-1)
                table, order = np.zeros_like(y), slice(None, None, -1 if first else 1)
                table[ids[order]] = dy[order]
                if site.case.training.HasField("padding_idx"):
                    table[site.case.training.padding_idx] = 0
                every += table
        return np.asarray(every + rows(site.inputs[-2]).T @ rows(site.inputs[-1]))

    return change


def heads_row_twice(y: Array, site: Site) -> Array:
    dy, x = site.inputs[-2:]
    return y + rows(dy[1:]).T @ rows(x[1:]) - rows(dy[:1]).T @ rows(x[:1])


def smoothed(y: Array, site: Site) -> Array:
    labels = site.inputs[1]
    counted = labels != -100
    softer = np.where(counted[..., None], -0.1 / y.shape[-1], np.zeros(y.shape))
    softer[(*np.nonzero(counted), labels[counted])] += 0.1
    return np.asarray(y + softer / counted.sum())


def first_layer_alone(y: Array, site: Site) -> Array:
    parts = zip(site.names, site.inputs, site.place.parameters, strict=True)
    passed = [rows(dy) @ site.checkpoint[name] for tap, dy, name in parts if ".layers.0." in tap]
    return np.asarray(sum(passed)).reshape(y.shape)


def without_a_row(y: Array, site: Site) -> Array:
    return y - np.sum([rows(dy[:1]).sum(0) for dy in site.inputs], 0)


def half_probable(y: Array, site: Site) -> Array:
    logits, labels = site.inputs
    wide = np.exp(np.asarray(logits, np.float64) - logits.max(-1, keepdims=True))
    counts = (labels != -100)[..., None]
    return y - np.where(counts, wide / wide.sum(-1, keepdims=True), 0) / counts.sum() / 2


TOLD: dict[str, tuple[str, str, Callable[[Array, Site], Array], str, str]] = {
    "x in place of x / rms": (
        CAUSAL,
        NORM,
        not_normalised,
        "gradient_tokens",
        "by its RMS: x is summed up, not x / RMS",
    ),
    "of heads": (CAUSAL, HEAD_NORM, not_normalised, "gradient_tokens", "by its RMS: x is summed up, not x / RMS"),
    "a token left out": (CAUSAL, Q, without_a_token, "gradient_tokens", "left out: batch row 1, position 2"),
    "a batch row twice": (CAUSAL, Q, row_twice, "gradient_tokens", "multiplied by 2: batch row 1"),
    "a batch row left out of a few numbers": (
        "training/untied",
        BIAS,
        without_a_row,
        "gradient_tokens",
        "left out: batch row 0",
    ),
    "half of the probabilities": (
        CAUSAL,
        LOGITS,
        half_probable,
        "gradient_parts",
        "multiplied by 0.5: the part of the probabilities",
    ),
    "repeated ids overwrite": (CAUSAL, SHARED, overwritten(False), "gradient_tokens", "only the last counts"),
    "in both stacks": (TIED, SHARED, overwritten(False), "gradient_tokens", "only the last counts"),
    "the first one stays": (CAUSAL, SHARED, overwritten(True), "gradient_tokens", "only the first counts"),
    "a row of the head's part twice, another never": (
        CAUSAL,
        SHARED,
        heads_row_twice,
        "gradient_tokens",
        "left out: head's tokens, batch row 0; multiplied by 2: head's tokens, batch row 1",
    ),
    "label smoothing": (CAUSAL, LOGITS, smoothed, "gradient_parts", "label smoothing of 0.1 is on"),
    "one layer passes back": (TIED, "gradient.encoder.norm", first_layer_alone, "gradient_parts", "left out: layer 1"),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mistake", TOLD)
def test_the_terms_of_a_gradient_are_told(mistake: str) -> None:
    case, place, change, name, words = TOLD[mistake]
    names = {finding.name: finding for finding in said(case, place, changed(change))}
    assert names[f"structure.{name}"].weight == 1 and words in names[f"structure.{name}"].says


def test_a_smoothed_loss_is_told() -> None:
    def smoother(y: Array, site: Site) -> Array:
        logits, labels = site.inputs
        scores = logits[labels != -100].astype(np.float64)
        alike = np.log(np.exp(scores).sum(-1)) - scores.mean(-1)
        return np.asarray(0.9 * y + 0.1 * alike.mean())

    assert "structure.gradient_parts" in [finding.name for finding in said(CAUSAL, "loss", changed(smoother))]
    assert "structure.gradient_parts" not in [
        finding.name for finding in said(CAUSAL, "loss", changed(lambda y, s: 1.0123 * y))
    ]


NO_TERMS: dict[str, tuple[str, Callable[[Array, Site], Array]]] = {
    "noise": (Q, lambda y, s: y + np.random.Generator(np.random.PCG64(0)).standard_normal(y.shape)),
    "a factor for all": (Q, lambda y, s: 1.5 * y),
    "transposed halves": (Q, lambda y, s: np.roll(y, 12, 0)),
    "noise in a norm": (NORM, lambda y, s: y + np.random.Generator(np.random.PCG64(0)).standard_normal(y.shape)),
    "another row": (SHARED, lambda y, s: np.roll(y, 1, 0)),
    "a factor for all logits": (LOGITS, lambda y, s: 1.5 * y),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mistake", NO_TERMS)
def test_what_no_factor_of_terms_does_is_told_as_none(mistake: str) -> None:
    place, change = NO_TERMS[mistake]
    assert not said(CAUSAL, place, changed(change))


@pytest.mark.parametrize("place", [NORM, Q, SHARED, LOGITS])
def test_an_honest_gradient_has_nothing_to_tell(place: str) -> None:
    assert not said(CAUSAL, place, None)
