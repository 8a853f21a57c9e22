"""Every rule of what a failure is, shown failing once on a small golden with one thing spoilt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import ParityError, Recording, pb, tensor, to_bfloat16, write
from qwen3_parity import check

Q_PROJ = "decoder.layers.1.merged_attn.q_proj"
OUTPUT = "encoder.layers.0.output"
PROBS = "decoder.layers.0.merged_attn.probs"


def only(verdicts):
    """The one problem there is, after making sure that it costs parity."""
    assert (verdicts.word, verdicts.exit_code) == ("divergence", 1)
    (problem,) = verdicts.problems
    return problem


def at(index, value):
    def change(array):
        array[index] = value

    return change


def test_a_golden_is_at_parity_with_itself(world):
    verdicts = check(world.golden, world.golden)
    assert (verdicts.word, verdicts.exit_code, verdicts.problems) == ("parity", 0, [])
    assert verdicts.compared == verdicts.of == len(world.golden.tensors) - 6


def test_inputs_are_no_comparisons(world):
    names = {tap.name for tap in check(world.golden, world.golden).taps}
    assert not [name for name in names if name.startswith("input.")]


def test_verdicts_stand_in_execution_order(world):
    taps = check(world.golden, world.golden).taps
    order = [item.key for item in world.golden if not item.info.name.startswith("input.")]
    assert [(tap.name, tap.step) for tap in taps] == order


def test_a_declared_tap_that_is_missing_is_named(world):
    problem = only(check(world.golden, world.without(OUTPUT)))
    assert (problem.where, problem.rule) == (f"{OUTPUT} (step 0)", "missing tap")
    assert "leave its pattern out" in problem.next_step


def test_a_missing_tap_lowers_the_share_of_taps_compared(world):
    verdicts = check(world.golden, world.without(OUTPUT))
    assert verdicts.of - verdicts.compared == 1


def test_a_missing_input_is_named(world):
    problem = only(check(world.golden, world.without("input.decoder_input_ids")))
    assert problem.rule.startswith("the case's inputs are not in it") and problem.expected == "input.decoder_input_ids"


def test_what_is_never_materialised_is_listed_and_lowers_the_share(world):
    patterns = [p for p in world.golden.run.materialised if not p.endswith((".scores", ".probs"))]
    fused = world.with_run(materialised=patterns, backend=pb.SDPA)
    fused = replace(fused, tensors=[t for t in fused if not t.info.name.endswith((".scores", ".probs"))])
    verdicts = check(world.golden, fused)
    assert verdicts.exit_code == 0
    assert len(verdicts.not_materialised) == verdicts.of - verdicts.compared == 2 * (2 + 4)


def test_an_extra_tap_of_the_table_is_named(world):
    extra = tensor("decoder.norm", world.golden["decoder.norm", 0].array, step=7)
    assert only(check(world.golden, world.plus(extra))).rule.startswith("extra tap: the golden has none")


def test_an_extra_tap_of_no_known_name_is_named(world):
    candidate = world.plus(tensor("decoder.nonsense", np.zeros(2, np.float32)))
    candidate = replace(
        candidate, run=world.with_run(materialised=[*candidate.run.materialised, "decoder.nonsense"]).run
    )
    assert only(check(world.golden, candidate)).rule == "there is no tap decoder.nonsense"


def test_a_duplicate_tap_is_named(world):
    assert only(check(world.golden, world.plus(world.golden["logits", 1]))).rule == "duplicate tap"


def test_a_duplicate_in_the_golden_is_our_own_fault(world):
    with pytest.raises(ParityError, match="harness bug") as error:
        check(world.plus(world.golden["logits", 1]), world.golden)
    assert error.value.fault == "harness bug"


def test_inputs_alone_are_zero_comparisons(world):
    inputs = [item for item in world.golden if item.info.name.startswith("input.")]
    patterns = [item.info.name for item in inputs]
    candidate = replace(world.with_run(materialised=patterns), tensors=inputs)
    rules = [problem.rule for problem in check(world.golden, candidate).problems]
    assert rules == ["zero comparisons: not one element of an output was judged"]


def test_an_empty_recording_against_an_empty_golden_is_no_parity(world):
    nothing = replace(world.golden, tensors=[], run=world.with_run(materialised=[]).run)
    assert "zero comparisons" in only(check(nothing, nothing)).rule


def test_another_shape_is_named(world):
    array = world.golden["logits", 1].array
    problem = only(check(world.golden, world.holding("logits", array[:, :, :-1].copy(), 1)))
    assert (problem.rule, problem.got) == ("another shape", str(array[:, :, :-1].shape))


ATTENTION = "decoder.layers.0.merged_attn"
NOT_FINITE, COPY = "NaN or infinity", "must be an exact copy"
ELEMENTS: dict[str, tuple[str, tuple[int, ...], float | bool, int, str | int]] = {
    "a row of padding": ("encoder.norm", (0, 4), 99.0, 0, 0),
    "a NaN in a row of padding": ("encoder.norm", (0, 4, 1), np.nan, 0, NOT_FINITE),
    "the first slot of a row padded on the left": ("logits", (1, 0), 99.0, 0, 0),
    "the same slot of a row without padding": ("logits", (0, 0), 99.0, 0, 1),
    "a decode step, at its own slot": ("logits", (1, 0), 99.0, 1, 1),
    "padded keys of the encoder half": (f"{ATTENTION}.cache_encoder_keys", (1, 0, 4), 99.0, 0, 0),
    "padded keys of the cache": (f"{ATTENTION}.cache_values", (1, 0, 0), 99.0, 1, 0),
    "a hidden score": (f"{ATTENTION}.scores", (0, 0, 0, 2), 99.0, 0, 0),
    "a visible score": (f"{ATTENTION}.scores", (0, 0, 2, 0), 99.0, 0, 1),
    "an infinite hidden score": (f"{ATTENTION}.scores", (0, 0, 0, 2), np.inf, 0, NOT_FINITE),
    "a hidden probability": (PROBS, (0, 0, 0, 2), 1e-12, 0, "probability of a hidden key is not exactly 0"),
    "a mask that shows one key more": (f"{ATTENTION}.mask", (0, 0, 2), True, 0, COPY),
    "a mask in a row of padding": (f"{ATTENTION}.mask", (1, 0), True, 0, 0),
    "a position one off": ("decoder.position_ids", (0, 1), 2, 0, 1),
    "a NaN": (Q_PROJ, (0, 0, 0), np.nan, 0, NOT_FINITE),
    "minus infinity": (Q_PROJ, (0, 0, 0), -np.inf, 0, NOT_FINITE),
}  # fmt: skip


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_changed_element_counts_where_it_is_judged_and_nowhere_else(world, element):
    tap, index, value, step, expected = ELEMENTS[element]
    verdicts = check(world.golden, world.changed(tap, at(index, value), step))
    assert (only(verdicts).rule if isinstance(expected, str) else verdicts.exit_code) == expected


def test_an_embedding_one_ulp_off_fails(world):
    moved = np.nextafter(world.golden["encoder.embed_tokens", 0].array[0, 0, 0], 9)
    assert only(check(world.golden, world.changed("encoder.embed_tokens", at((0, 0, 0), moved)))).rule == COPY


DECLARED = [
    (lambda patterns: {*patterns} - {"encoder.norm"}, "delivered but not declared"),
    (lambda patterns: {*patterns, "decoder.nonsense"}, "declared, but no such name"),
    (lambda patterns: {*patterns, "generated_ids"}, "declared, but never delivered"),
]


@pytest.mark.parametrize(("change", "rule"), DECLARED)
def test_what_is_declared_is_what_is_delivered(world, change, rule):
    candidate = world.with_run(materialised=sorted(change(world.golden.run.materialised)))
    assert only(check(world.golden, candidate)).rule == rule


STORED = [
    (lambda array: array.astype(np.float16), None, "another dtype"),
    (to_bfloat16, pb.BF16, "another dtype"),
    (lambda array: array.astype(np.int64), None, "another dtype"),
    (lambda array: array[:1].copy(), None, "another shape"),
    (lambda array: array.astype(np.float64), None, ""),
]
"""Narrower, an integer, a shape that would broadcast; wider passes."""


@pytest.mark.parametrize(("change", "dtype", "rule"), STORED)
def test_what_is_stored_has_the_shape_and_is_no_narrower(world, change, dtype, rule):
    verdicts = check(world.golden, world.holding(OUTPUT, change(world.golden[OUTPUT, 0].array), dtype=dtype))
    assert (only(verdicts).rule == rule) if rule else verdicts.exit_code == 0


def test_a_nan_floor_lets_nothing_pass(world):
    golden = world.changed(OUTPUT, lambda array: None)
    golden[OUTPUT, 0].info.floor.rms = float("nan")
    assert check(golden, world.changed(OUTPUT, at((0, 0, 0), 9.0))).exit_code == 1


def test_an_error_beyond_the_budget_fails_with_its_share(world):
    floor = world.golden[OUTPUT, 0].info.floor
    value = world.golden[OUTPUT, 0].array[0, 0, 0] + 40 * floor.max
    problem = only(check(world.golden, world.changed(OUTPUT, at((0, 0, 0), value))))
    assert problem.share is not None and problem.share > 4


def test_an_error_within_the_budget_passes(world):
    floor = world.golden[OUTPUT, 0].info.floor
    value = world.golden[OUTPUT, 0].array[0, 0, 0] + floor.max
    verdicts = check(world.golden, world.changed(OUTPUT, at((0, 0, 0), value)))
    assert verdicts.exit_code == 0
    assert verdicts.worst.name == OUTPUT and 0 < verdicts.worst.share <= 1


def _wide_golden(world, shape, name, axes):
    """A golden of one tap with unit floors, without padding."""
    item = tensor(name, np.zeros(shape, np.float32), axes=axes)
    item.info.floor.CopyFrom(pb.Floor(rms=1, max=1, row=1, head=1))
    return replace(
        world.golden, tensors=[item], run=world.with_run(materialised=["decoder.layers.{layer}." + name[17:]]).run
    )


def _noise(golden, change):
    item = golden.tensors[0]
    array = item.array.copy()
    change(array)
    new = tensor(item.info.name, array, axes=item.info.axes)
    return replace(golden, tensors=[new])


def test_one_bad_row_of_512_is_caught_though_the_whole_tensor_passes(world):
    golden = _wide_golden(world, (1, 512, 4), "decoder.layers.0.output", ("batch", "query", "hidden"))
    bad = _noise(golden, at((0, 300), 7.9 * 1.2))
    (tap,) = check(golden, bad).taps
    assert tap.shares.rms < 1 < tap.shares.row
    assert tap.metrics.row_index == (0, 300)


def test_one_bad_head_is_caught_though_the_whole_tensor_and_every_row_pass(world):
    axes = ("batch", "heads", "query", "head_dim")
    golden = _wide_golden(world, (1, 64, 3, 4), "decoder.layers.0.merged_attn.q_rope", axes)
    golden.tensors[0].info.floor.max = 9
    bad = _noise(golden, at((0, 5), 9.0))
    (tap,) = check(golden, bad).taps
    assert max(tap.shares.rms, tap.shares.max, tap.shares.row) < 1 < tap.shares.head
    assert tap.metrics.head_index == (5,)


def test_a_row_without_any_visible_key_is_not_compared_from_then_on(world):
    golden = world.changed("decoder.layers.0.merged_attn.mask", at((0, 1), False))
    candidate = replace(golden, tensors=list(golden.tensors))
    spoilt = candidate["decoder.layers.1.output", 0].array.copy()
    spoilt[0, 1] = 99
    new = tensor("decoder.layers.1.output", spoilt, axes=("batch", "query", "hidden"))
    tensors = [new if t.key == new.key else t for t in golden]
    zeroed = world.changed(PROBS, at((0, slice(None), 1), 0.0))[PROBS, 0]
    tensors = [zeroed if t.key == zeroed.key else t for t in tensors]
    assert check(golden, replace(golden, tensors=tensors)).exit_code == 0


def test_parameters_loaded_with_other_bytes_come_first(world):
    bad = pb.Parameter(name="lm_head.weight", dtype=pb.F32, shape=[13, 8], sha256=bytes([7] * 32))
    others = [p for p in world.golden.parameters if p.name != "lm_head.weight"]
    candidate = replace(world.without(OUTPUT), parameters=[*others, bad])
    first, second = check(world.golden, candidate).problems
    assert first.rule == "checkpoint as loaded differs: lm_head.weight"
    assert second.rule == "missing tap"


def test_a_parameter_that_was_never_loaded_is_named(world):
    candidate = replace(world.golden, parameters=list(world.golden.parameters)[1:])
    name = world.golden.parameters[0].name
    assert only(check(world.golden, candidate)).rule == f"checkpoint as loaded differs: {name}"


def test_a_recorder_that_sees_no_parameters_is_not_blamed_for_it(world):
    assert check(world.golden, replace(world.golden, parameters=[])).exit_code == 0


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"name": "other"}, "case.name"),
        ({"mode": pb.CAUSAL}, "case.mode"),
        ({"steps": [2, 2]}, "case.steps"),
        ({"checkpoint": [pb.Checkpoint(role="encoder", sha256=bytes([9] * 32))]}, "case.checkpoint"),
    ],
)
def test_another_case_is_refused_by_the_name_of_its_field(world, fields, where):
    with pytest.raises(ParityError) as error:
        check(world.golden, world.with_case(**fields))
    assert where in error.value.where and error.value.fault == "input"


def test_a_checkpoint_that_is_listed_twice_is_refused_whichever_digest_comes_first(world):
    wrong = pb.Checkpoint(role="encoder", name="e", sha256=bytes([9] * 32))
    with pytest.raises(ParityError, match="each role once"):
        check(world.golden, world.with_case(checkpoint=[wrong, *world.golden.case.checkpoint]))


def test_a_parameter_that_is_listed_twice_is_named_whichever_digest_comes_first(world):
    wrong = pb.Parameter(name="lm_head.weight", dtype=pb.F32, shape=[13, 8], sha256=bytes([7] * 32))
    candidate = replace(world.golden, parameters=[wrong, *world.golden.parameters])
    problem = only(check(world.golden, candidate))
    assert (problem.rule, problem.got) == (
        "checkpoint as loaded differs: lm_head.weight",
        "1 × listed more than once",
    )


def test_another_number_of_the_configuration_is_refused_by_its_name(world):
    candidate = world.with_case()
    candidate.case.config.rms_norm_eps = 1e-5
    with pytest.raises(ParityError, match=r"case\.config\.rms_norm_eps"):
        check(world.golden, candidate)


def test_other_inputs_are_refused_by_name(world):
    with pytest.raises(ParityError, match=r"input\.decoder_input_ids"):
        check(world.golden, world.changed("input.decoder_input_ids", lambda ids: np.add(ids, 1, out=ids)))


def test_a_golden_without_a_floor_is_our_own_fault(world):
    golden = world.changed(OUTPUT, lambda array: None)
    golden[OUTPUT, 0].info.ClearField("floor")
    with pytest.raises(ParityError, match="harness bug") as error:
        check(golden, world.golden)
    assert error.value.fault == "harness bug" and OUTPUT in error.value.where


def test_masks_that_do_not_fit_their_tap_are_our_own_fault(world):
    golden = world.holding("input.decoder_attention_mask", np.ones((3, 4), bool))
    golden = replace(golden, tensors=[t for t in golden if not t.info.name.endswith(".mask")])
    with pytest.raises(ParityError, match="harness bug"):
        check(golden, golden)


def test_arithmetic_that_is_other_is_never_called_parity(world):
    verdicts = check(world.golden, world.with_run(arithmetic=pb.ARITHMETIC_OTHER))
    assert verdicts.problems == []
    assert verdicts.word == "within budget, no parity" and verdicts.exit_code == 1


def _spoilt_twice(world) -> Recording:
    first = world.changed("encoder.norm", at((0, 0), 99.0))["encoder.norm", 0]
    second = world.changed(Q_PROJ, at((0, 0), 99.0))[Q_PROJ, 0]
    swap = {first.key: first, second.key: second}
    return world.with_tensors(swap.get(item.key, item) for item in world.golden)


def test_every_failure_names_the_first_bad_op(world):
    verdicts = check(world.golden, _spoilt_twice(world))
    assert verdicts.first_bad.name == "encoder.norm"
    assert [p.first_bad for p in verdicts.problems] == ["rms_norm at encoder.norm (step 0)"] * 2


def test_a_failure_says_where_what_how_far_whose_fault_and_what_next(world):
    text = str(check(world.golden, _spoilt_twice(world)).problems[1])
    for part in (Q_PROJ, "expected:", "got:", "× used", "first bad: rms_norm", "fault:    candidate", "next:"):
        assert part in text


def test_files_are_read_with_their_digests(world, tmp_path):
    write(tmp_path / "golden.pb", world.golden)
    write(tmp_path / "same.pb", world.golden)
    assert check(tmp_path / "golden.pb", str(tmp_path / "same.pb")).exit_code == 0


def test_a_tampered_payload_is_refused(world, tmp_path):
    path = tmp_path / "golden.pb"
    write(path, world.golden)
    content = bytearray(path.read_bytes())
    payload = world.golden["logits", 0].array.tobytes()
    content[content.index(payload)] ^= 1
    path.write_bytes(content)
    with pytest.raises(ParityError, match="is not what was written"):
        check(path, world.golden)


def test_a_self_test_of_the_format_compares_bits_and_lets_nan_be(world):
    special = [tensor("input.t", np.float32([np.nan, -0.0, np.inf])), tensor("x", np.zeros((0, 2), np.float16))]
    golden = Recording(pb.Case(name="p", mode=pb.PLUMBING), pb.Provenance(), pb.Run(), special)
    unsigned = replace(golden, tensors=[tensor("input.t", np.float32([np.nan, 0.0, np.inf])), special[1]])
    assert check(golden, golden).exit_code == 0
    assert only(check(golden, unsigned)).rule == "must be an exact copy"


def generated(world, ids, margin):
    run = world.with_run(materialised=[*world.golden.run.materialised, "generated_ids"]).run
    chosen = tensor("generated_ids", np.array([ids]), axes=["batch", "new"], op="argmax")
    return replace(world.with_case(smallest_margin=margin), run=run, tensors=[*world.golden.tensors, chosen])


def test_another_token_at_a_near_tie_is_neither_parity_nor_a_bug(world):
    verdicts = check(generated(world, [3, 4], 1e-9), generated(world, [3, 5], 1e-9))
    assert (verdicts.word, verdicts.exit_code, verdicts.problems[0].fault) == ("near-tie", 1, "nobody's")
    assert "noise floor" in verdicts.problems[0].got


def test_another_token_where_margins_are_wide_is_a_divergence(world):
    assert check(generated(world, [3, 4], 1.0), generated(world, [3, 5], 1.0)).word == "divergence"
