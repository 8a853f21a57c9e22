"""The ways in which verification code passes on broken models, each with the tests that answer it here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
IDS = tuple(f"HAR-{number:02}" for number in range(1, 24))
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "HAR-01": ("tools/report/test_pages.py::test_json_of_no_case_at_all_is_no_parity",
        "tools/report/page/test_contents.py::test_a_page_about_nothing_claims_nothing"),
    "HAR-02": ("impl/weights/test_checkpoint_refused.py::test_our_loader_refuses_it_by_name",
        "impl/test_save_load.py::test_resizing_the_embeddings_keeps_every_tie",
        "impl/test_save_load.py::test_frequencies_survive_construction_on_the_meta_device"),
    "HAR-03": ("tools/blame/test_replay.py::test_a_wrong_weight_is_blamed_everywhere_it_is_used",
        "spec/test_model.py::test_every_parameter_is_used"),
    "HAR-04": ("impl/weights/test_gradient_flow.py::test_every_parameter_of_a_sound_model_receives_a_gradient",
        "impl/weights/test_gradient_flow.py::test_whatever_stops_a_gradient_fails_the_checks_of_its_part_alone"),
    "HAR-06": ("tools/check/test_check_rules.py::test_an_error_beyond_the_budget_fails_with_its_share",
        "tools/check/test_check_rules.py::test_what_is_stored_has_the_shape_and_is_no_narrower"),
    "HAR-07": (
        "parity/metamorphic/test_metamorphic_tokens.py::test_an_encoder_token_changes_every_encoder_row_before_it_and_after",
        "spec/test_model.py::test_an_encoder_token_changes_both_sides"),
    "HAR-08": ("spec/ops/test_ops.py::test_rms_norm_does_not_subtract_the_mean",),
    "HAR-09": ("parity/metamorphic/test_metamorphic_rows.py::test_a_row_alone_is_the_same_row_in_its_batch",
        "tools/check/test_check_rules.py::test_one_bad_row_of_512_is_caught_though_the_whole_tensor_passes"),
    "HAR-10": ("parity/metamorphic/test_metamorphic_paths.py::test_every_path_gives_the_same_logits_and_caches",),
    "HAR-11": ("reference/checkpoints/test_tiny.py::test_the_set_has_every_kind_of_checkpoint",),
    "HAR-12": ("spec/ops/test_attention.py::test_rope_by_a_quarter_turn_sends_a_half_to_the_other",
        "reference/cases/test_op_cases.py::test_the_inputs_are_as_hard_as_they_should_be"),
    "HAR-13": ("tools/judge/test_budgets.py::test_a_share_is_error_over_headroom_times_floor",
        "reference/floors/test_measure.py::test_every_float_tap_has_a_floor_that_is_small_and_not_zero",
        "reference/floors/test_measure.py::test_a_wrong_specification_would_be_noticed"),
    "HAR-14": ("tools/check/test_check_rules.py::test_another_number_of_the_configuration_is_refused_by_its_name",),
    "HAR-15": ("parity/test_parity_components.py::test_a_component_is_within_its_budget",),
    "HAR-16": ("reference/capture/test_oracle.py::test_a_causal_encoder_would_be_noticed",
        "parity/test_parity_ops_alone.py::test_hugging_face_agrees_with_the_specification_at_every_op",
        "parity/test_parity_ops_alone.py::test_an_op_with_another_epsilon_is_seen_alone"),
    "HAR-17": ("tools/check/test_check_rules.py::test_a_row_without_any_visible_key_is_not_compared_from_then_on",
        "impl/test_paths_agree.py::test_flex_attention_agrees_with_eager",
        "parity/test_parity_paths.py::test_sdpa_is_within_budget"),
    "HAR-18": ("parity/test_parity_real_size.py::test_the_whole_road_at_the_size_of_qwen3_0_6b",),
    "HAR-19": ("impl/test_training.py::test_dropout_acts_in_training_only",),
    "HAR-20": ("tools/check/test_check_rules.py::test_a_parameter_that_was_never_loaded_is_named",
        "impl/weights/test_qwen3_checkpoint.py::test_missing_extra_and_mis_shaped_tensors_are_all_named_at_once",
        "reference/checkpoints/test_weights.py::test_every_tensor_has_its_canonical_name"),
    "HAR-21": ("impl/test_inputs_refused.py::test_id_outside_the_vocabulary_is_refused",),
    "HAR-22": ("tools/check/test_check_rules.py::test_a_changed_element_counts_where_it_is_judged_and_nowhere_else",
        "tools/check/test_check_rules.py::test_a_nan_floor_lets_nothing_pass"),
    "HAR-23": ("parity/test_parity_components.py::test_every_component_is_shown_by_some_golden",
        "parity/metamorphic/test_metamorphic_paths.py::test_a_second_request_is_as_if_it_were_the_first",
        "tools/check/test_check_rules.py::test_inputs_alone_are_zero_comparisons"),
}  # fmt: skip
"""Tests outside this folder that answer a row too; those of this folder carry its number in their names."""


def names_of(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name


def here() -> dict[str, list[str]]:
    """The tests of this folder by the row that their name carries."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_har_*.py")):
        for name in names_of(path):
            number = re.match(r"test_har_(\d\d)_", name)
            if number:
                found.setdefault(f"HAR-{number[1]}", []).append(name)
    return found


@pytest.mark.parametrize("row", IDS)
def test_a_row_of_the_catalogue_is_answered_by_a_test(row: str) -> None:
    assert here().get(row) or ELSEWHERE.get(row)


def test_no_test_answers_a_row_that_the_catalogue_does_not_have() -> None:
    assert set(here()) | set(ELSEWHERE) == set(IDS)


@pytest.mark.parametrize("node", sorted({node for nodes in ELSEWHERE.values() for node in nodes}))
def test_a_test_that_is_named_as_an_answer_exists(node: str) -> None:
    path, _, name = node.partition("::")
    assert name in set(names_of(TESTS / path))


def test_every_test_of_this_folder_says_which_row_it_answers() -> None:
    for path in sorted(Path(__file__).parent.glob("test_har_*.py")):
        if path != Path(__file__):
            assert [name for name in names_of(path) if not re.match(r"test_har_\d\d_", name)] == [], path.name
