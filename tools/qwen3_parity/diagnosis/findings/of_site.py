"""The wrong tap of a network that the specification's formulas judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, is_dataclass, replace
from functools import partial
from typing import Any

from qwen3_golden import Array, pb
from qwen3_parity.blame.evidence import as_stored
from qwen3_parity.diagnosis.findings.attended import Attended, attended
from qwen3_parity.diagnosis.findings.product_of_site import product_of
from qwen3_parity.diagnosis.findings.terms_of_site import terms_of
from qwen3_parity.diagnosis.findings.wrong_tap import Key, WrongTap, in_float64
from qwen3_parity.diagnosis.judged import Judged
from qwen3_parity.mistakes.requests import earlier
from qwen3_spec.arithmetic import FLOAT64
from qwen3_spec.heads import heads_first
from qwen3_spec.ops import OPS
from qwen3_spec.site import Site


def wrong_tap(judged: Judged) -> WrongTap | None:
    """A judged tap as `WrongTap`; None where the candidate's has another shape."""
    evidence, (truth, unit) = judged.evidence, judged.truth
    site = evidence.site
    if not judged.in_shape:
        return None
    if unit is not None:
        unit = as_stored(unit, truth, site.place.op, evidence.dtype)
    run = site.values

    def recorded(name: str, step: int) -> Array | None:
        values = run.recorded(name, step)
        return None if values is None else in_float64(values)

    def axes_of(name: str, step: int) -> Sequence[str]:
        place = run.place(name)
        return () if place is None else tuple(place.axes)

    def golden(name: str, step: int) -> Array | None:
        tap = None if run.golden is None else run.golden.get(name, step)
        return None if tap is None else in_float64(tap.values())

    def again(key: Key, values: Array) -> Array | None:
        if evidence.others or key not in reads:
            return None
        inputs = [
            values if read == key else recorded_input for read, recorded_input in zip(reads, site.inputs, strict=False)
        ]
        return OPS[site.place.op].at_site(replace(site, inputs=tuple(inputs)), FLOAT64)

    reads = [(name, site.step) for name in site.names]
    return WrongTap(
        key=(site.place.name, site.step),
        axes=tuple(site.place.axes),
        ops=evidence.ops,
        actual=in_float64(evidence.actual),
        truth=in_float64(truth),
        unit=unit,
        judged=evidence.judged,
        wrong=judged.cells,
        headroom=judged.headroom,
        recorded=recorded,
        keys=[item.key for item in run.golden or run.recording if item.key in run.recording],
        reads=reads,
        config=_numbers(site.config),
        before=earlier(site),
        axes_of=axes_of,
        attention=partial(_attention, site),
        product=partial(product_of, judged),
        terms=partial(terms_of, judged),
        wide=evidence.dtype in (pb.F32, pb.F64),
        again=again,
        golden=golden,
    )


def _attention(site: Site) -> Attended | None:
    """What a context is made of; None where keys are of two kinds, the encoder's beside its own."""
    run, memory = site.values, site.sibling("cache_encoder_keys")
    if not site.place.name.endswith(".context"):
        return None
    if run.place(memory) is not None and run.value(memory, site.step) is not None:
        return None
    cached = run.place(site.sibling("cache_keys")) is not None
    values = run.value(site.sibling("cache_values" if cached else "v_proj"), site.step)
    return attended(
        run.value(site.sibling("q_rope"), site.step),
        run.value(site.sibling("cache_keys" if cached else "k_rope"), site.step),
        values if cached or values is None else heads_first(values, site.config.head_dim),
        run.value(site.sibling("probs"), site.step),
    )


def _numbers(config: Any) -> dict[str, Any]:
    return asdict(config) if is_dataclass(config) and not isinstance(config, type) else {}
