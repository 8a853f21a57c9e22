"""A recurrence says what a prefill in chunks does otherwise: its step of a token, run for each token of a longer input.

It runs `edits.recurrence`, `edits.recurring` and `edits.single`, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_delta_rule import CASE, CHECKPOINTS, NORM, faults_of
from transformers.models.qwen3_next import modeling_qwen3_next

from detection.ported.row import rows
from detection.ported.run import judged
from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.edits.edit import Edit
from qwen3_parity.diagnosis.edits.grammar import PLAIN
from qwen3_parity.diagnosis.edits.grammar.leaves import leaves
from qwen3_parity.diagnosis.edits.grammar.places import places
from qwen3_parity.diagnosis.edits.recurrence import Recurrence, recurrences
from qwen3_parity.diagnosis.edits.recurring import between_chunks, recurring
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.search import search
from qwen3_parity.diagnosis.edits.target import target
from qwen3_parity.mistakes.rounding import bfloat16
from qwen3_parity.slices.network import Network, network
from qwen3_reference.graph.tiny import write_tiny

TAP = NORM.replace("*", "0")
STATES = ("cache.0.conv_states", "cache.0.recurrent_states")


OF_A_CALL = 10_000
"""Counted work of an op, at least."""
LAYERS = r"model\.layers\.\d+"


@cache
def honest(taps: str = r"(?!cache\.).*", case: str = CASE) -> Network:
    """The golden's own run, by modules, or by the taps of a pattern."""
    golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb", digests=True)
    candidate = replace(golden, tensors=[item for item in golden if re.fullmatch(taps, item.info.name)])
    return network(golden, candidate, dict(weights_of(golden, CHECKPOINTS)))


def region(name: str = TAP, step: int = 0, of: Network | None = None) -> Region:
    of = of or honest()
    return Region(of, of.graph.taps[name, step], (name, step))


@cache
def recurrence() -> Recurrence:
    (of_layer,) = recurrences(region())
    return of_layer


def test_a_step_of_a_token_reads_and_gives_the_states_of_its_layer() -> None:
    assert recurrence().states == STATES and recurrence().results == (TAP,)
    assert len(recurrence().body.order) < 150 < len(region().order)


def test_token_by_token_it_gives_what_the_chunks_give() -> None:
    assert recurrence().gives(region().base, 0)


def test_a_recurrence_that_gives_something_else_is_not_tried() -> None:
    base = dict(region().base)
    base[region().value] = base[region().value] * 1.00001
    assert not recurrence().gives(base, 0)


def test_padding_ahead_leaves_the_states_as_they_are() -> None:
    mask = honest().golden["input.attention_mask", 0].array
    assert (mask[:, 0] == 0).any()
    _, states = next(recurrence().walk(region().base, 0, None))
    for state in states:
        assert not state[mask[:, 0] == 0].any() and state[mask[:, 0] != 0].any()


@pytest.mark.parametrize("name", ["model.embed_tokens", "model.layers.1.self_attn.q_proj"])
def test_a_region_without_states_has_no_recurrence(name: str) -> None:
    assert not list(recurrences(region(name)))


@pytest.mark.parametrize("case", ["model/gemma3", "model/gpt_oss"])
@pytest.mark.parametrize("taps", [LAYERS, r"(?!cache\.).*"])
def test_a_full_window_of_keys_is_no_recurrence(case: str, taps: str) -> None:
    """It has one size in every step, as a state has."""
    of = honest(taps, case)
    for (name, step), value in of.graph.taps.items():
        if value in of.slices.recorded and of.graph.node(value) is not None:
            assert not list(recurrences(Region(of, value, (name, step))))


def edits(step: int = 0) -> dict[str, Edit]:
    every, alone = recurring(region(TAP, step))
    return {edit.says: edit for edit in (*every, *alone) if isinstance(edit, Edit)}


def test_an_edit_is_made_in_every_token() -> None:
    edited = region().edited(edits()["leaves out mul by decay_t"])
    tokens = recurrence().split(np.asarray(edited) - region().base[region().value], TAP, 0)
    assert np.abs(tokens[0]).max() < 1e-12, "nothing has decayed before the second token"
    assert all(np.abs(token).max() > 1e-4 for token in tokens[1:])


def test_two_values_in_each_others_place_are_those_of_each_token() -> None:
    """As in the chunks that the graph has, which read both at once."""
    of_chunks = {edit.says: edit for edit in places(region())}
    for says in ("has b and a in each other's place", "has query and key in each other's place"):
        actual, expected = (np.asarray(region().edited(edit)) for edit in (edits()[says], of_chunks[says]))
        np.testing.assert_allclose(actual, expected, atol=1e-9)
        assert np.abs(actual - region().base[region().value]).max() > 1e-3, "it changes something"


def test_of_a_later_step_an_edit_is_made_in_later_steps_alone() -> None:
    edit = edits(1)["has zeros for cache.*.recurrent_states, in later steps"]
    later, first = region(TAP, 1), region()
    assert np.abs(np.asarray(later.edited(edit)) - later.base[later.value]).max() > 1e-4
    assert first.edited(edit) is None, "it changes nothing"


def test_work_in_tokens_is_counted_as_the_regions() -> None:
    """The region's own ops are one here: it gives what the recurrence does."""
    here = region()
    edit = next(
        edit for edit in recurring(here)[0] if isinstance(edit, Edit) and edit.says == "leaves out mul by decay_t"
    )
    before, ops = here.work, len(here.downstream([here.value]))
    here.edited(edit)
    assert ops == 1 and here.work - before > 20 * OF_A_CALL


AGAIN = "has zeros for cache.*.recurrent_states again behind every {} tokens of a prompt"


def test_a_state_is_forgotten_where_a_chunk_ends_in_each_row_behind_its_padding() -> None:
    every = {edit.says: edit for edit in between_chunks(recurrence())}
    plain = [states[1] for _, states in recurrence().walk(region().base, 0, None)]
    padding = np.asarray(recurrence().padding).sum(1)
    assert padding.any(), "rows differ"
    for says, behind in ((AGAIN.format(2), padding), (f"{AGAIN.format(2)}, padding counted", 0 * padding)):
        walk = [states[1] for _, states in recurrence().walk(region().base, 0, every[says])]
        for row, ahead in enumerate(behind.tolist()):
            first = 2 + ahead - 1
            if first == len(plain) - 1:
                continue  # the last token's is handed on as it is
            assert not walk[first][row].any() and (plain[first][row].any() or first < padding[row])
            for token in range(first):
                np.testing.assert_array_equal(walk[token][row], plain[token][row])


def test_what_is_held_in_few_bits_is_so_behind_the_last_token_too() -> None:
    every = {edit.says: edit for edit in between_chunks(recurrence())}
    edit = every["holds cache.*.recurrent_states in bfloat16 between steps"]
    *_, (_, states) = recurrence().walk(region().base, 0, edit)
    *_, (_, plain) = recurrence().walk(region().base, 0, None)
    assert (states[1] == bfloat16(plain[1])).all() and (states[1] != plain[1]).any()


def test_an_edit_of_a_step_whose_state_was_recorded_is_tried_in_the_first_steps_tokens() -> None:
    """There is nothing of the first step in the later ones' regions, and the first step has other lines."""
    of, says = honest(".*"), "leaves out mul by decay_t"
    recorded = dict(of.slices.recorded)
    for step in (0, 1):
        here = region(TAP, step, of if step else honest())
        tables = recurring(here)[0] if not step else [edit for table in PLAIN for edit in table(here)]
        edit = next(edit for edit in tables if isinstance(edit, Edit) and edit.says.startswith(says))
        recorded[here.value] = np.asarray(region(TAP, step, here.network).edited(edit), np.float32)
    wrong = replace(of, slices=replace(of.slices, recorded=recorded))
    names = {(item.info.name, item.info.step): item for item in of.candidate}
    for step in (0, 1):
        names[TAP, step] = replace(names[TAP, step], array=recorded[of.graph.taps[TAP, step]])
    wrong = replace(wrong, candidate=replace(of.candidate, tensors=[*names.values()]))
    targets = [each for step in (0, 1) if (each := target(wrong, TAP, step)) is not None]
    best = search(targets, []).fitting[0]
    assert best.edit.says == says and best.said.whole == best.said.of == 2


def test_rows_of_a_parameter_are_exchanged_by_the_parts_of_a_split() -> None:
    """Of a fused convolution the rows of queries and keys, which the split behind it cuts."""
    of = honest()
    name = "model.layers.0.linear_attn.conv1d.weight"
    says = "has rows of parts 0 and 1 of 3 of layers.*.linear_attn.conv1d.weight in each other's place"
    (edit,) = (edit for edit in leaves(region()) if edit.says == says)
    weight = of.slices.leaves[of.graph.leaves[name]]
    key = next(size for size in _cuts(of) if sum(size) == len(weight))[0]
    exchanged = np.concatenate([weight[key : 2 * key], weight[:key], weight[2 * key :]])
    weights = {**dict(weights_of(of.golden, CHECKPOINTS)), name: exchanged}
    loaded = network(of.golden, of.candidate, weights)
    np.testing.assert_allclose(region().edited(edit), region(of=loaded).base[region().value], rtol=1e-9, atol=1e-12)


def _cuts(of: Network) -> list[tuple[int, ...]]:
    cuts = (node.operands[1] for node in of.graph.nodes if node.op.startswith("split_with_sizes"))
    return [cut for cut in cuts if isinstance(cut, tuple) and len(cut) == 3]


# Hugging Face's rule with one mistake, in both of its forms: what a port has that runs its step for each token.


def by_tokens(q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any, step: Callable[..., Any]) -> tuple[Any, Any]:
    """A delta rule token by token: `step` gives the next state and the token's result."""
    q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    batch, length, heads, width = k.shape
    state = q.new_zeros(batch, heads, width, v.shape[-1]) if state is None else state
    results = []
    for at in range(length):
        state, result = step(state, q[:, at] * width**-0.5, k[:, at], v[:, at], g[:, at].exp(), beta[:, at])
        results.append(result)
    return torch.stack(results, 1), state


def read_(state: Any, key: Any) -> Any:
    return torch.einsum("bhkv,bhk->bhv", state, key)


def written(state: Any, key: Any, delta: Any, beta: Any) -> Any:
    return state + torch.einsum("bhk,bhv->bhkv", key, delta * beta[..., None])


def decays_late(state: Any, q: Any, k: Any, v: Any, decay: Any, beta: Any) -> Any:
    state = written(state, k, v - read_(state, k), beta) * decay[..., None, None]
    return state, read_(state, q)


def predicts_early(state: Any, q: Any, k: Any, v: Any, decay: Any, beta: Any) -> Any:
    delta = v - read_(state, k)
    state = written(state * decay[..., None, None], k, delta, beta)
    return state, read_(state, q)


def gates_the_value_alone(state: Any, q: Any, k: Any, v: Any, decay: Any, beta: Any) -> Any:
    state = state * decay[..., None, None]
    delta = v * beta[..., None] - read_(state, k)
    state = written(state, k, delta, torch.ones_like(beta))
    return state, read_(state, q)


RULES = {
    decays_late: ("edit.moved", "applies mul by decay_t to the result of add behind it"),
    predicts_early: ("edit.reads", "reads what stands before mul in mul"),
    gates_the_value_alone: ("edit.moved", "alone by beta_t, not all of sub"),
}


@pytest.mark.parametrize(("name", "taps"), [(TAP, r"(?!cache\.).*"), ("model.layers.0", LAYERS)])
def test_an_edit_that_the_first_wrong_token_excludes_changes_nothing(name: str, taps: str) -> None:
    """By the result of the rule itself, and by what stands behind it."""
    sound = region(name, of=honest(taps))
    edits = {each.says: each for each in recurring(sound)[0] if isinstance(each, Edit)}
    slices, actual = sound.network.slices, region(name, of=sound.network).edited(edits["leaves out mul by decay_t"])
    wrong = replace(slices, recorded={**slices.recorded, sound.value: np.asarray(actual, np.float32)})
    here = region(name, of=replace(sound.network, slices=wrong))
    edits = {each.says: each for each in recurring(here)[0] if isinstance(each, Edit)}
    assert here.edited(edits["leaves out mul by decay_t"]) is not None
    assert here.edited(edits["negates the result of exp"]) is None


@pytest.mark.slow
@pytest.mark.parametrize("step", RULES, ids=lambda step: step.__name__)
def test_a_mistake_in_the_rule_itself_is_named_by_modules_alone(
    step: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(query: Any, key: Any, value: Any, g: Any, beta: Any, **named: Any) -> Any:
        repeated = value.shape[2] // query.shape[2]
        query, key = (x.repeat_interleave(repeated, 2) for x in (query, key))
        return by_tokens(query, key, value, g, beta, named.get("initial_state"), step)

    for form in ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"):
        monkeypatch.setattr(modeling_qwen3_next, form, rule)
    (fault,) = faults_of(lambda model: None, tmp_path)
    name, says = RULES[step]
    assert fault.explanations[0].name == name and says in fault.explanations[0].says, fault.explanations[:1]


def forgets(query: Any, key: Any, value: Any, g: Any, beta: Any, **named: Any) -> Any:
    """The rule of a prompt in chunks of four slots that begin with a state of zeros each."""
    repeated, at = value.shape[2] // query.shape[2], iter(range(value.shape[1]))
    query, key = (x.repeat_interleave(repeated, 2) for x in (query, key))

    def step(state: Any, q: Any, k: Any, v: Any, decay: Any, beta: Any) -> Any:
        state = state * decay[..., None, None] * (next(at) % 4 > 0)
        state = written(state, k, v - read_(state, k), beta)
        return state, read_(state, q)

    return by_tokens(query, key, value, g, beta, named.get("initial_state"), step)


def loses_an_input(hidden: Any, state: Any, *more: Any, **named: Any) -> Any:
    """A convolution of a token whose state has one input fewer."""
    state[..., :2] = 0
    return CONVOLUTION(hidden, state, *more, **named)


CONVOLUTION: Any = modeling_qwen3_next.causal_conv1d_update
OF_STATES = {
    "torch_chunk_gated_delta_rule": (forgets, f"{AGAIN.format(4)}, padding counted"),
    "causal_conv1d_update": (
        loses_an_input,
        "has 1 of the earlier inputs of a convolution fewer: zeros for the oldest",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("function", OF_STATES)
def test_a_mistake_of_states_is_named_by_modules_alone(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake, says = OF_STATES[function]
    monkeypatch.setattr(modeling_qwen3_next, function, mistake)
    (fault,) = faults_of(lambda model: None, tmp_path)
    best = fault.explanations[0]
    assert best.name == "edit.state" and best.says.startswith(says) and best.reproduced == best.of, best


@pytest.mark.slow
def test_an_edit_of_a_recurrence_is_made_in_all_layers_that_have_one() -> None:
    """A model of several: what was tried in the layer of one tap explains the taps of the others."""
    (row,) = (row for row in rows() if row.name == "qwen3_next-12")
    result = judged(row, "modules")
    assert result.is_right and not result.innocents, result.said


@pytest.mark.slow
@pytest.mark.parametrize(("family", "result"), [("mamba2", "norm"), ("falcon_h1", "out_proj")])
def test_a_convolutions_bias_at_padding_goes_into_no_state(family: str, result: str, tmp_path: Path) -> None:
    """Such a state space has a recurrence only where padding leaves its states as they are."""
    write_tiny(family, tmp_path / family)
    golden = read(tmp_path / family / "golden.pb", digests=True)
    modules = replace(golden, tensors=[item for item in golden if not item.info.name.startswith("cache.")])
    of = network(golden, modules, dict(weights_of(golden, tmp_path)))
    assert (golden["input.attention_mask", 0].array == 0).any()
    (name,) = (name for name, step in of.graph.taps if not step and re.search(rf"layers\.0\.\w+\.{result}$", name))
    (of_layer,) = recurrences(region(name, of=of))
    assert name in of_layer.results
