"""What cannot be recorded on a golden with a graph is refused in one sentence, and leaves no file behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_goldens import BATCH, SLOTS, STEPS, Flat, Taps, Twice, golden_of, hooked, inputs, moe, write

import qwen3_parity
from qwen3_golden import ParityError
from qwen3_parity import Case
from qwen3_parity.recording.arguments import arguments_of
from qwen3_parity.recording.case import until
from qwen3_parity.recording.match_names import match_names
from qwen3_parity.recording.prefixes import prefixes_of


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("graph") / "moe.pb"
    return qwen3_parity.golden(golden_of(moe(), path, inputs(), STEPS))


def plus_1(case: Case) -> torch.Tensor:
    """The ids of a case, one of them another."""
    ids = case.inputs["input_ids"].clone()
    ids[1, 4] += 1
    return ids


RUNS: dict[str, tuple[Callable[[Any, Case], Any], str]] = {
    "other ids": (lambda model, case: model(case.inputs["input_ids"] + 1), "these are not the case's input_ids"),
    "another id": (lambda model, case: model(plus_1(case)), r"row 1 has \d+ for \d+ in slot 4"),
    "rows reversed": (lambda model, case: model(case.inputs["input_ids"].flip(0)), r"in another order, \(2, 1, 0\)"),
    "a row less": (lambda model, case: model(case.inputs["input_ids"][1:]), "another number of rows, 2 and not 3"),
    "no end": (lambda model, case: model(**case.steps[0]), "the case was not run to its end"),
    "no last steps": (lambda model, case: model(**case.steps[0]), "2 more forwards, of 1 and 4 tokens a row"),
    "once more": (
        lambda model, case: [model(**case.inputs) for _ in range(2)],
        "the case is at its end, and the model",
    ),
    "not at all": (lambda model, case: None, "the model did not run"),
    "a part alone": (lambda model, case: model.model.embed_tokens(case.inputs["input_ids"]), "outside a forward"),
}


def test_new_keys_alone_are_told_where_keys_belong(case: Case, tmp_path: Path) -> None:
    with (
        pytest.raises(ParityError, match=r"the forward's new keys alone.*cache\.\{layer\}\.keys") as refusal,
        qwen3_parity.record(None, case, path=tmp_path / "none.pb") as recording,
    ):
        recording["model.layers.0.self_attn.key", 0] = case.golden["model.layers.0.self_attn.key", 0].array
        recording["model.layers.0.self_attn.key", 1] = np.zeros((BATCH, 2, STEPS[1], 10), np.float32)
    assert "not [3, 2, 8, 10]" in refusal.value.rule


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_is_not_the_cases_is_refused(case: Case, name: str, tmp_path: Path) -> None:
    model, (run, says) = moe("sdpa"), RUNS[name]
    with (
        pytest.raises(ParityError, match=says),
        qwen3_parity.record(model, case, path=tmp_path / "none.pb"),
        torch.no_grad(),
    ):
        run(model, case)
    assert not list(tmp_path.iterdir())


def in_chunks(model: Any, case: Case) -> None:
    model(case.inputs["input_ids"][:, :2], use_cache=True)


def row_by_row(model: Any, case: Case) -> None:
    model(case.inputs["input_ids"][:1])


def padded_on_the_other_side(model: Any, case: Case) -> None:
    model(case.inputs["input_ids"].flip(1), case.inputs["attention_mask"].flip(1))


@pytest.mark.parametrize("run", [in_chunks, row_by_row, padded_on_the_other_side])
def test_a_run_of_another_shape_is_told_how_it_is_recorded_by_hand(
    case: Case, run: Callable[[Any, Case], None], tmp_path: Path
) -> None:
    model = moe("sdpa")
    with (
        pytest.raises(ParityError, match=r"with record\(None, case\) as recording: recording\[name, step\] = array"),
        qwen3_parity.record(model, case, path=tmp_path / "none.pb"),
        torch.no_grad(),
    ):
        run(model, case)


MAPS: dict[str, tuple[dict[str, Any], str]] = {
    "no module": ({"blocks.{layer}.wrong": "o_proj"}, r"no such module(.|\n)*nearest are blocks"),
    "no tap": ({"last": "final_norm"}, r"final_norm: the golden has no tap of this name"),
    "two taps": ({"blocks.{layer}.n1": "norm#2"}, "the golden has no tap"),
    "two meanings": ({"last": "weight"}, "the golden has no tap"),
    "two places": ({"last": "model.norm", "embed": "model.norm"}, "model.norm has one place already"),
    "a layer on one side": ({"last": "o_proj"}, "a layer's number on one side alone"),
    "no number of groups": (
        {"blocks.{layer}.qkv": {"taps": ["q_proj", "k_proj"], "groups": "kv_heads"}},
        "no number of",
    ),
    "widths": ({"blocks.{layer}.qkv": ["q_proj", "k_proj"]}, r"do not make up(.|\n)*q_proj 60 \+ k_proj 20 = 80"),
    "another shape": ({"blocks.{layer}.wo": "q_proj"}, r"not that of model.layers.0.self_attn.q_proj"),
    "another number of axes": ({"last": {"tap": "model.norm", "axes": "batch query hidden"}}, "not that of model.norm"),
    "no such input": ({"last:input.3": "model.norm"}, r"the module has no such input(.|\n)*1 inputs: x"),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_fits_nothing_is_refused(case: Case, name: str, tmp_path: Path) -> None:
    model, (names, says) = Flat(moe()), MAPS[name]
    with (
        pytest.raises(ParityError, match=says),
        qwen3_parity.record(model, case, names, tmp_path / "none.pb"),
        torch.no_grad(),
    ):
        model(case.inputs["input_ids"])
    assert not list(tmp_path.iterdir())


def test_what_is_no_tensor_is_no_tap(tmp_path: Path) -> None:
    model, arrays, taps = Twice(), {"input_ids": inputs()["input_ids"]}, Taps()
    with hooked(model, taps, 0), torch.no_grad():
        model(**arrays)
    write(tmp_path / "twice.pb", taps, arrays, (SLOTS,), {})
    case = qwen3_parity.golden(tmp_path / "twice.pb")
    with (
        pytest.raises(ParityError, match=r"this is no tensor(.|\n)*got: *NoneType"),
        qwen3_parity.record(model, case, {"pair:output.1": "norm"}, tmp_path / "none.pb"),
        torch.no_grad(),
    ):
        model(**case.inputs)


def test_what_a_map_leaves_out_alone_leaves_the_rest_as_it_is(case: Case, tmp_path: Path) -> None:
    model = moe("sdpa")
    with qwen3_parity.record(model, case, {"model.layers.{layer}.mlp": ""}, tmp_path / "some.pb") as recording:
        model(**case.inputs)
    assert ("model.layers.1.mlp", 0) not in recording and ("model.layers.1.mlp.gate", 0) in recording


@pytest.mark.parametrize(
    ("arrays", "steps", "says"),
    [
        ({"input_ids": inputs()["input_ids"]}, (7, 4), "the steps of the case are not those of its ids"),
        ({"input_ids": inputs()["input_ids"]}, (), "the steps of the case are not those of its ids"),
        ({"input_ids": inputs()["input_ids"][:0]}, (SLOTS,), "the steps of the case are not those of its ids"),
        ({"pixel_values": torch.zeros(BATCH, SLOTS)}, (SLOTS,), "its inputs have no ids"),
        ({"input_ids": torch.zeros(SLOTS, dtype=torch.long)}, (SLOTS,), "its inputs have no ids"),
    ],
)
def test_a_golden_whose_inputs_tell_no_steps_is_refused(
    arrays: dict[str, torch.Tensor], steps: tuple[int, ...], says: str, tmp_path: Path
) -> None:
    write(tmp_path / "odd.pb", {("lm_head", 0): torch.zeros(2)}, arrays, steps or (SLOTS,), {})
    case = qwen3_parity.golden(tmp_path / "odd.pb")
    case.golden.case.steps[:] = steps
    with pytest.raises(ParityError, match=says):
        _ = case.inputs, case.lengths, case.ids
    with (
        pytest.raises(ParityError, match=says),
        qwen3_parity.record(None, case, path=tmp_path / "none.pb") as recording,
    ):
        recording["lm_head"] = np.zeros(2, np.float32)
    assert [path.name for path in tmp_path.iterdir()] == ["odd.pb"]


def test_beside_a_decoders_inputs_those_of_its_encoder_stand_whole_in_each_step() -> None:
    arrays = {
        "input_ids": np.zeros((2, 5)),
        "attention_mask": np.zeros((2, 5)),
        "decoder_input_ids": np.zeros((2, 5)),
        "decoder_attention_mask": np.zeros((2, 5)),
    }
    cut = until(arrays, {}, 5, 3, 4)
    assert {name: array.shape[1] for name, array in cut.items()} == {
        "input_ids": 5,
        "attention_mask": 5,
        "decoder_input_ids": 1,
        "decoder_attention_mask": 4,
    }


def test_positions_of_several_kinds_are_cut_where_their_axes_say() -> None:
    arrays = {
        "input_ids": np.zeros((2, 5)),
        "position_ids": np.zeros((3, 2, 5)),
        "attention_mask": np.zeros((2, 1, 5, 5)),
    }
    axes = {"position_ids": ("channel", "batch", "query"), "attention_mask": ("batch", "channel", "query", "key")}
    assert {name: array.shape for name, array in until(arrays, axes, 5, 3, 4).items()} == {
        "input_ids": (2, 1),
        "position_ids": (3, 2, 1),
        "attention_mask": (2, 1, 1, 4),
    }


def test_a_model_without_an_argument_that_changes_the_run_is_refused(case: Case) -> None:
    class Bare(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return tokens

    class Anything(torch.nn.Module):
        def forward(self, anything: torch.Tensor) -> torch.Tensor:
            return anything

    args, named = arguments_of(Bare(), case)
    assert list(named) == ["tokens"] and not args
    turned = Case(case.path, case.golden)
    turned.arrays["input_ids"] = turned.arrays.pop("input_ids")  # a golden may have its inputs in any order
    assert arguments_of(Anything(), turned)[1]["anything"].equal(case.inputs["input_ids"])
    hidden = Case(case.path, case.golden)
    hidden.arrays["attention_mask"][0, -1] = 0
    with pytest.raises(ParityError, match="no argument for attention_mask"):
        arguments_of(Bare(), hidden)


def test_match_names_says_that_it_knows_no_such_network(case: Case) -> None:
    with pytest.raises(ParityError, match=r"no table of its network(.|\n)*write it(.|\n)*lists the taps"):
        match_names(moe(), case)


@pytest.mark.parametrize(
    ("theirs", "pair"),
    [
        (["model.layers.0.mlp", "model.norm", "lm_head"], ("", "")),
        (["layers.0.mlp", "norm"], ("model.", "")),
        (["llm.model.layers.0.mlp", "llm.model.norm", "llm.lm_head"], ("", "llm.")),
        (["llm.layers.0.mlp", "llm.norm", "llm.lm_head"], ("model.", "llm.")),
        (["transformer.layers.0.mlp", "transformer.norm", "lm_head"], ("model.", "transformer.")),
    ],
)
def test_a_prefix_is_the_one_under_which_most_paths_meet(theirs: list[str], pair: tuple[str, str]) -> None:
    prefixes = prefixes_of(["model.layers.0.mlp", "model.norm", "lm_head"], ["", *theirs])
    meet = [prefixes.path(path, theirs) for path in ("model.layers.0.mlp", "model.norm", "lm_head")]
    assert prefixes == pair and [path for path in meet if path] == theirs
