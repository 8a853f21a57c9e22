"""A candidate judged by its golden's graph: honest runs pass, mistakes are blamed where they are, choices by regret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small
from small import EXPERTS, Change, Values, golden, inputs, recording, run, weights

from qwen3_golden import Array, ParityError, Recording, Tensor, pb, read, tensor, write
from qwen3_parity.check import check
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.explained import REFERENCE, Explained
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.slices.check import judged_by_graph
from qwen3_parity.slices.judge import Alone, judge
from qwen3_parity.slices.network import network
from qwen3_parity.slices.rerouted import routes
from qwen3_parity.slices.stored import graph_of
from qwen3_spec.aten.noise import Noise
from qwen3_spec.slices import Slices


def candidate(leave: tuple[str, ...] = (), **change: Change) -> Recording:
    names = {"gate": "layers.0.gate", "picked": "layers.0.gate[2]", "mixed": "layers.0.experts"}
    values = run({names[name]: how for name, how in change.items()})
    return recording({name: value for name, value in values.items() if name not in leave}, "port")


def times(tap: str, factor: float) -> Change:
    return lambda values: {tap: (values[tap] * np.float32(factor)).astype(np.float32)}


def picked(change: Array | None = None, **columns: int) -> Change:
    def chosen(values: Values) -> Values:
        indices = values["layers.0.gate[2]"].copy()
        if change is not None:
            indices = indices[..., change]
        for _, number in columns.items():
            indices[..., -1] = number
        return {"layers.0.gate[2]": indices}

    return chosen


def wrong(verdicts: Verdicts) -> list[str]:
    return verdicts.wrong_alone


def test_an_honest_run_is_at_parity_with_every_tap_and_with_few() -> None:
    for leave in (
        (),
        ("layers.0.gate", "layers.0.gate[1]", "layers.0.experts"),
        ("embed", "layers.0", "layers.0.gate"),
    ):
        verdicts = check(golden(), candidate(leave), weights())
        assert verdicts.word == "parity" and verdicts.judged == "run and ops" and not verdicts.wrong_alone
        assert len(verdicts.not_materialised) == len(leave)


@pytest.mark.parametrize(
    ("leave", "blamed"),
    [
        ((), ["layers.0.experts"]),
        (("layers.0.experts",), ["layers.0"]),
        (("layers.0.experts", "layers.0"), ["logits"]),
    ],
)
def test_a_mistake_is_blamed_on_the_slice_that_has_it_and_nobody_else(
    leave: tuple[str, ...], blamed: list[str]
) -> None:
    verdicts = check(golden(), candidate(leave, mixed=times("layers.0.experts", 1.001)), weights())
    assert verdicts.word == "divergence" and wrong(verdicts) == blamed


def test_without_weights_the_run_alone_is_judged_and_without_floors_too_it_is_refused() -> None:
    assert check(golden(), candidate()).judged == "run only"
    assert check(golden(), candidate(mixed=times("layers.0.experts", 1.001))).word == "divergence"
    bare = recording(run({}), "qwen3_reference", {"nothing": pb.Floor()})
    with pytest.raises(ParityError, match="no noise floors"):
        check(bare, candidate())
    assert check(bare, candidate(), weights()).judged == "ops only"


def test_other_choices_are_judged_by_regret_and_what_follows_by_them() -> None:
    verdicts = check(golden(), candidate(picked=picked(np.asarray([1, 0]))), weights())
    assert not wrong(verdicts)  # the same two in another order
    verdicts = check(golden(), candidate(picked=picked(last=0)), weights())
    assert wrong(verdicts) == ["layers.0.gate[2]"]


@pytest.mark.parametrize("index", [-1, EXPERTS])
def test_a_choice_that_nobody_has_is_infinitely_wrong(index: int) -> None:
    judged = judged_by_graph(golden(), candidate(picked=picked(last=index)), weights())
    shares = {part.verdict.name: part.verdict.share for part in judged.alone}
    assert shares["layers.0.gate[2]"] == np.inf


def test_a_choice_is_never_absorbed_into_the_op_behind_it() -> None:
    order = np.asarray([1, 0])

    def sorted_alone(values: Values) -> Values:
        return {"layers.0.gate[2]": values["layers.0.gate[2]"][..., order]}

    values = run({})
    values |= sorted_alone(values)  # the indices in another order, their weights not
    verdicts = check(golden(), recording(values, "port"), weights())
    assert "layers.0.gate[1]" in wrong(verdicts) and "layers.0.experts" in wrong(verdicts)


def test_tokens_with_another_choice_are_left_out_of_the_run_and_a_note_says_so() -> None:
    scores = run({})["layers.0.gate"]
    second, third = (np.sort(scores, -1)[..., -place] for place in (2, 3))
    gap = np.where(inputs()["attention_mask"], second - third, np.inf)
    row, slot = np.unravel_index(np.argmin(gap), gap.shape)

    def tie(values: Values) -> Values:
        near = values["layers.0.gate"].copy()
        chosen = np.argsort(-near[row, slot])[1:3]
        near[row, slot, chosen] = near[row, slot, chosen[0]]
        near[row, slot, chosen[1]] += np.float32(1e-2)
        return {"layers.0.gate": near}

    moved = candidate(gate=tie)
    verdicts = check(golden(), moved, weights())
    assert [note for note in verdicts.notes if "1 of 8 choices are others than the golden's" in note]
    assert wrong(verdicts) == ["layers.0.gate"]  # what was tampered with, and nothing that follows from it
    assert {tap.name for tap in verdicts.taps if tap.problem is not None} == {"layers.0.gate"}


def other_scores(values: Values) -> Values:
    """Scores by which the token with the closest choice would choose another."""
    near = values["layers.0.gate"].copy()
    order = np.argsort(-near, -1)
    gap = -np.diff(np.take_along_axis(near, order, -1), axis=-1)[..., 1]
    row, slot = np.unravel_index(np.argmin(np.where(inputs()["attention_mask"], gap, np.inf)), gap.shape)
    near[row, slot, order[row, slot, 1:3]] = near[row, slot, order[row, slot, [2, 1]]]
    return {"layers.0.gate": near}


@pytest.mark.parametrize("leave", [(), ("layers.0.gate[1]", "layers.0.gate[2]")])
def test_who_takes_the_goldens_choices_and_says_so_is_judged_by_them(leave: tuple[str, ...]) -> None:
    golden_choice: Change = lambda _: {"layers.0.gate[2]": run({})["layers.0.gate[2]"]}  # noqa: E731
    run_ = candidate(leave, gate=other_scores, picked=golden_choice)
    behind = ["layers.0.experts"] if leave else ["layers.0.gate[2]"]
    assert wrong(check(golden(), run_, weights())) == ["layers.0.gate", *behind]
    run_.run.golden_choices = True
    assert wrong(check(golden(), run_, weights())) == ["layers.0.gate"]


def test_choices_that_nobody_recorded_are_the_references_on_the_candidates_own_numbers() -> None:
    """Scores alone are recorded: by them a token goes to another expert, and what follows is no longer the same run."""
    leave = ("layers.0.gate[1]", "layers.0.gate[2]")
    for gate, count in ((other_scores, 1), (None, 0)):
        mine = candidate(leave) if gate is None else candidate(leave, gate=gate)
        net = network(golden(), mine, weights())
        rerouted = routes(net.graph, golden(), mine, net)
        assert len(rerouted.notes) == count and all("1 of 8 choices" in note for note in rerouted.notes)
        moved = rerouted.before(golden()["logits", 0])
        assert sum(int(tokens.any()) for tokens in moved.values()) == count
    assert not routes(net.graph, golden(), candidate(leave, gate=other_scores)).places


def test_who_says_so_and_chooses_otherwise_is_found_out() -> None:
    run_ = candidate(picked=picked(last=0))
    run_.run.golden_choices = True
    problems = {tap.name: tap.problem.rule for tap in check(golden(), run_, weights()).taps if tap.problem}
    assert problems["layers.0.gate[2]"] == "the run says golden_choices, but it chose others"
    run_ = candidate(picked=picked(np.asarray([1, 0])))
    run_.run.golden_choices = True
    assert not wrong(check(golden(), run_, weights()))  # in any order


def test_without_weights_other_experts_excuse_nothing() -> None:
    """Nobody can tell whether the choice was honest, and what follows from it is another run."""
    misrouted = candidate(picked=picked(last=0))
    assert check(golden(), misrouted).word == "divergence"
    assert {tap.name for tap in check(golden(), misrouted).taps if tap.problem} >= {"layers.0.experts", "logits"}


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_logits_of_the_last_position_alone_are_judged_as_such(factor: float) -> None:
    values = run({})
    values["logits"] = (values["logits"][:, -1:] * np.float32(factor)).astype(np.float32)
    verdicts = check(golden(), recording(values, "port"), weights())
    assert verdicts.word == ("partial" if factor == 1 else "divergence")
    assert verdicts.wrong_alone == ([] if factor == 1 else ["logits"])


@pytest.mark.parametrize(("factor", "judged"), [(1.0, 7), (1.001, 8)])
def test_what_two_taps_hold_alike_is_judged_once(factor: float, judged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(small._TAPS, "head", 17)
    values, asked = run({}), list[str]()
    both = recording({**values, "head": values["logits"]}, "qwen3_reference", {"logits": pb.Floor(rms=1, max=1, row=1)})

    def counting(item: Tensor, *more: Any) -> Alone:
        asked.append(item.info.name)
        return judge(item, *more)

    monkeypatch.setattr("qwen3_parity.slices.check.judge", counting)
    head = (values["logits"] * np.float32(factor)).astype(np.float32)
    verdicts = check(both, recording({**values, "head": head}, "port"), weights())
    assert len(asked) == judged and len(verdicts.taps) == 8
    assert verdicts.wrong_alone == ([] if factor == 1 else ["head"])


def test_where_the_reference_does_nothing_what_reads_it_may_read_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm that is an identity in the reference, and doubles in the engine: the router reads it, the sum does not."""
    monkeypatch.setitem(small._TAPS, "layers.0.norm", 6)
    values = run({})
    both = recording(
        {**values, "layers.0.norm": values["embed"]}, "qwen3_reference", {"logits": pb.Floor(rms=1, max=9)}
    )
    doubled = run({"layers.0.gate": lambda taps: {"layers.0.gate": 2 * taps["layers.0.gate"]}})
    engine = recording({**doubled, "layers.0.norm": 2 * values["embed"]}, "port")
    assert check(both, engine, weights()).wrong_alone == ["layers.0.norm"]
    (fault,) = diagnose(both, engine, weights()).faults
    assert fault.numbers[0].name == "from.nothing" and "it gives what embed holds" in fault.numbers[0].says


@pytest.mark.parametrize(("factor", "draws"), [(1.0, 2), (1.001, 8)])
def test_what_few_draws_tell_to_be_right_asks_for_no_more(
    factor: float, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, value = set[int](), Slices.value

    def counting(here: Slices, number: int, noise: Noise | None = None, **more: Any) -> Array:
        if noise is not None and number == 15:
            drawn.add(noise.draw)
        return value(here, number, noise, **more)

    monkeypatch.setattr(Slices, "value", counting)
    verdicts = check(golden(), candidate(mixed=times("layers.0.experts", factor)), weights())
    assert len(drawn) == draws and verdicts.wrong_alone == ([] if factor == 1 else ["layers.0.experts"])


def test_what_is_not_finite_is_infinitely_wrong_and_what_reads_it_is_not_judged() -> None:
    def spoiled(values: Values) -> Values:
        bad = values["layers.0.experts"].copy()
        bad[0, 0, 0] = np.nan
        return {"layers.0.experts": bad}

    judged = judged_by_graph(golden(), candidate(mixed=spoiled), weights())
    by_name = {part.verdict.name: part.verdict for part in judged.alone}
    assert by_name["layers.0.experts"].share == np.inf
    assert by_name["layers.0"].reason == "what it is computed from is not finite"
    assert judged.verdicts.first_bad is not None and judged.verdicts.first_bad.name == "layers.0.experts"


def test_padding_is_not_judged() -> None:
    def padded(values: Values) -> Values:
        experts = values["layers.0.experts"].copy()
        experts[1, :2] += 1
        return {"layers.0.experts": experts}

    assert check(golden(), candidate(mixed=padded), weights()).word == "parity"


def test_a_run_in_float64_and_one_in_wide_storage_pass() -> None:
    wide = {name: value.astype(np.float64) for name, value in weights().items()}
    assert check(golden(), recording(run({}, wide), "port"), weights()).word == "parity"


def test_other_inputs_another_shape_and_unknown_taps_are_refused_or_said() -> None:
    honest = candidate()
    values = run({})
    values["layers.0"] = values["layers.0"][:, :-1]
    verdicts = check(golden(), recording(values, "port"), weights())
    assert [problem.rule for problem in verdicts.problems] == ["another shape"]
    extra = tensor("layers.7", np.ones((2, 2), np.float32))
    more = Recording(honest.case, honest.provenance, honest.run, [*honest.tensors, extra])
    assert "layers.7" in check(golden(), more, weights()).problems[0].got
    ids = tensor("input.input_ids", inputs()["input_ids"] + 1, axes=("batch", "query"), op="input")
    inputs_changed = [ids if item.key == ids.key else item for item in honest]
    with pytest.raises(ParityError, match="did not run the golden's case"):
        check(golden(), Recording(honest.case, honest.provenance, honest.run, inputs_changed), weights())


def test_the_name_of_a_golden_is_a_label_and_the_inputs_say_which_run_it_is() -> None:
    honest = candidate()
    case = pb.Case()
    case.CopyFrom(honest.case)
    case.name = "golden_bfloat16"
    verdicts = check(golden(), Recording(case, honest.provenance, honest.run, honest.tensors), weights())
    assert not verdicts.problems and verdicts.compared


def test_weights_that_are_not_there_are_named() -> None:
    with pytest.raises(ParityError, match=r"(?s)parameters that are not there.*head\.weight"):
        check(golden(), candidate(), {name: value for name, value in weights().items() if name != "head.weight"})


def lines(fault: Explained) -> list[str]:
    return [finding.says for finding in fault.findings if finding.name == REFERENCE]


def test_a_diagnosis_says_the_module_the_factor_and_the_references_lines() -> None:
    judged = diagnose(golden(), candidate(mixed=times("layers.0.experts", 1.001)), weights())
    (fault,) = judged.faults
    assert fault.fault.place == "layers.{layer}.experts"
    assert {explanation.name for explanation in fault.explanations} == {"edit.fitted"}
    assert all("by 1.001" in explanation.says for explanation in fault.explanations) and not lines(fault)
    (fault,) = diagnose(
        golden(), candidate(("layers.0.experts", "layers.0"), mixed=times("layers.0.experts", 1.001)), weights()
    ).faults
    assert fault.fault.place == "logits" and "by 1.001" in fault.explanations[0].says


def test_a_golden_with_a_graph_is_a_file_and_comes_back(tmp_path: Path) -> None:
    write(tmp_path / "golden.pb", golden())
    again = read(tmp_path / "golden.pb", digests=True)
    assert again.graph == golden().graph
    assert check(again, candidate(), weights()).word == "parity"


def test_taps_stand_in_the_order_in_which_they_are_computed() -> None:
    graph = graph_of(golden().graph, golden().source)
    honest = candidate()
    upside_down = replace(golden(), tensors=[*reversed(golden().tensors)])
    for expected in (golden(), upside_down):
        taps = check(expected, honest, weights()).taps
        values = [graph.taps[tap.name, tap.step] for tap in taps]
        assert values == sorted(values) and len(values) > 1
