"""Two descriptions of one network: the graph that its reference exported, and the formulas written by hand.

On a golden's own values they have the same truth, and rounding units within three times of each other: neither is
believed alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from committed import committed
from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read
from qwen3_parity.blame.tap_judge import TapJudge, expected
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.scope import Scope
from qwen3_reference.graph.settings import as_reference
from qwen3_reference.graph.traced import arrays_of, traced
from qwen3_spec.aten.noise import draws
from qwen3_spec.graph import Graph
from qwen3_spec.slices import DRAWS, Slices

OPS = {"q_rope": "query", "k_rope": "key", "context": "context", "probs": "probs"}
"""Taps inside of attention under our names and under the graph's."""
TABLES = {"decoder.cos": "model.rotary_emb", "decoder.sin": "model.rotary_emb[1]"}
OTHER_INPUTS = ("cos", "sin", "probs", "post_attention_layernorm", "down_proj", "output")
"""Ops whose formula reads a tap that no module gives, and the graph what stands before it."""


class Both(NamedTuple):
    golden: Recording
    graph: Graph
    slices: Slices
    names: dict[str, str]


MANY = 50
"""So many names of taps a case has that leaves out none, or few."""


def causal() -> list[str]:
    """Committed decoders of ids in float32, without an encoder and with most of their taps."""
    names = []
    for path in sorted(GOLDEN_ROOT.glob("cases/*/*.pb")):
        case, run, taps = committed(path)
        plain = case.mode == pb.CAUSAL and case.steps and not case.HasField("training") and not case.rows
        whole = len(taps) > MANY and "input.decoder_input_ids" in taps
        if plain and whole and run.arithmetic == pb.ARITHMETIC_F32:
            names.append(case.name)
    return names


def graphs_name(tap: str) -> str:
    """What the graph calls a tap of ours."""
    if tap in TABLES:
        return TABLES[tap]
    name = tap.replace("decoder.", "model.", 1).replace(".merged_attn.", ".self_attn.")
    last = name.rpartition(".")[2]
    if last in OPS:
        return name.removesuffix(last) + OPS[last]
    return re.sub(r"^(model\.layers\.\d+)\.output$", r"\1", name)


@cache
def both(case: str) -> Both:
    golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
    length = golden.case.steps[0]
    model = AutoModelForCausalLM.from_pretrained(
        GOLDEN_ROOT / "checkpoints" / golden.case.checkpoint[0].name, dtype=torch.float32
    ).eval()
    recorded_inputs = {
        item.info.name.removeprefix("input.decoder_"): item.array for item in golden if item.info.op == "input"
    }
    inputs = {name: torch.from_numpy(array[:, :length].astype(np.int64)) for name, array in recorded_inputs.items()}
    with as_reference(model):
        trace = traced(model, inputs, (length,))
    arrays = dict(arrays_of(model, inputs))
    names = {item.info.name: graphs_name(item.info.name) for item in golden if item.info.step == 0 and item.is_float}
    names = {tap: name for tap, name in names.items() if (name, 0) in trace.graph.taps}
    recorded = {trace.graph.taps[name, 0]: golden[tap, 0].values() for tap, name in names.items()}
    return Both(golden, trace.graph, Slices(trace.graph, trace.graph.leaf_values(arrays), recorded), names)


def formula(values: Values, golden: Recording, tap: str) -> tuple[Array, Array, Array, str] | None:
    """Truth, unit and judged cells of a tap by its op's formula."""
    evidence = TapJudge(values, Scope(golden)).evidence(golden[tap, 0])
    if isinstance(evidence, str) or evidence.others:
        return None
    truth, unit = expected(evidence)
    return None if unit is None else (truth, unit, evidence.judged, evidence.site.place.op)


@pytest.mark.slow
@pytest.mark.parametrize("case", causal())
def test_graph_and_formulas_agree_on_a_goldens_values_and_their_units(case: str) -> None:
    here = both(case)
    values = Values(here.golden, weights_of(here.golden, GOLDEN_ROOT / "checkpoints"), here.golden)
    ratios, distances = dict[str, float](), dict[str, float]()
    for tap, name in here.names.items():
        hand = formula(values, here.golden, tap)
        value = here.graph.taps[name, 0]
        if hand is None or not here.slices.order(value) or tap.endswith(OTHER_INPUTS):
            continue
        truth, unit, judged, op = hand
        mine = here.slices.value(value)
        assert mine.shape == truth.shape, tap
        drawn = here.slices.unit(value, mine, judged)
        root = [float(np.sqrt(np.square(part[judged]).mean())) for part in (drawn, unit, (mine - truth) / drawn)]
        ratios[f"{op} {tap}"], distances[f"{op} {tap}"] = root[0] / root[1], root[2]
    assert len(ratios) > 20
    assert max(distances.values()) < 1e-6, max(distances, key=lambda name: distances[name])
    assert not {name: ratio for name, ratio in ratios.items() if not 1 / 3 < ratio < 3}


FAR = ("decoder/yarn_mscale", "decoder/yarn_stated", "llama/beyond_original")
"""Their angles are far: measured floors take the golden's tables there, and draws have angles of their own."""


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in causal() if case not in FAR])
def test_floors_by_draws_are_as_wide_as_the_measured_ones(case: str) -> None:
    here = both(case)
    whole = replace(here.slices, recorded={})
    values = {tap: here.graph.taps[name, 0] for tap, name in here.names.items() if here.golden[tap, 0].info.floor.rms}
    truth, squares = whole.every(set(values.values())), dict.fromkeys(values, 0.0)
    for noise in draws(DRAWS[-1], narrow=False):
        drawn = whole.every(set(values.values()), noise)
        for tap, value in values.items():
            squares[tap] += float(np.square(drawn[value] - truth[value]).mean()) / DRAWS[-1]
    ratios = {tap: np.sqrt(squares[tap]) / here.golden[tap, 0].info.floor.rms for tap in values}
    assert len(ratios) >= 20 and max(ratios.values()) < 3 and 0.5 < np.median(list(ratios.values())) < 2.5, ratios
