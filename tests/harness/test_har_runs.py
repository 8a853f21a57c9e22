"""The right model in the right mode: other families and checkpoints are found, dropout never gets into a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity import check
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import record
from qwen3_reference.capture.models import load_reference
from qwen3_reference.cases.networks import case

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
Golden = Callable[[str], Recording]
Judged = Callable[..., Verdicts]
ENDS_ALONE = "generation/"
"""Cases that may record nothing within their attention."""


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("encoder/ragged", "qwen2-encoder"),
        ("encdec/qwen2", "tied-decoder"),
        ("decoder/ragged_decode", "window-decoder"),
        ("decoder/ragged_decode", "tied-encoder"),  # the same sizes: only the numbers are others
    ],
)
def test_har_14_a_run_on_another_family_or_checkpoint_diverges_and_names_what_was_loaded(
    name: str, other: str, golden: Golden, tmp_path: Path
) -> None:
    record(golden(name), tmp_path / "other.pb", factory(), model=CHECKPOINTS / other, digests=False)
    candidate = read(tmp_path / "other.pb")
    verdicts = check(golden(name), candidate)
    assert verdicts.exit_code == 1
    assert verdicts.problems[0].rule.startswith("checkpoint as loaded differs")
    assert sum(not tap.passed for tap in verdicts.taps) + verdicts.missing > 30  # the numbers alone say it too


def test_har_14_qk_norms_that_are_skipped_are_missing_taps_and_never_less_to_compare(golden: Golden) -> None:
    recording = golden("encoder/one_token")
    without = [item for item in recording if not item.info.name.endswith(("q_norm", "k_norm"))]
    rules = {
        p.rule
        for p in check(recording, Recording(recording.case, recording.provenance, recording.run, without)).problems
    }
    assert "missing tap" in rules


def test_har_14_the_goldens_of_each_family_come_from_its_own_reference(networks: dict[str, Recording]) -> None:
    for recording in networks.values():
        names = [item.info.name.removesuffix(".weight") for item in recording]
        normed = any(name.endswith(".q_norm") for name in names)
        inside = any(name.endswith(".q_proj") for name in names)
        family = recording.case.config.model_type
        of = f"{recording.case.name} {' '.join(one.name for one in recording.case.checkpoint)}"
        assert family == next((one for one in ("qwen2", "llama") if one in of), "qwen3")
        if recording.case.tier == pb.TIER_MODEL:
            assert inside or recording.case.name.startswith(ENDS_ALONE)
            assert not inside or normed == (family == "qwen3")


def with_dropout(runner: EncoderDecoder) -> None:
    for layer in [*runner.model.encoder.layers, *runner.model.decoder.layers]:
        attention = getattr(layer, "self_attn", None) or layer.merged_attn
        attention.attention_dropout = 0.5


def left_on(runner: EncoderDecoder) -> None:
    with_dropout(runner)
    runner.model.train()


def test_har_19_a_model_handed_over_in_train_mode_is_recorded_without_dropout(golden: Golden, tmp_path: Path) -> None:
    def build(message: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
        model = load_qwen3(checkpoints["decoder"], checkpoints["encoder"])
        runner = EncoderDecoder(model.train(), "eager")
        with_dropout(runner)
        runners.append(runner)
        return runner

    runners: list[EncoderDecoder] = []
    recording = golden("encdec/ragged")
    record(recording, tmp_path / "trained.pb", build, digests=False)
    assert check(recording, read(tmp_path / "trained.pb")).exit_code == 0
    assert not any(module.training for module in runners[0].model.modules())


@pytest.mark.parametrize("name", ["encoder/ragged", "decoder/ragged_decode", "encdec/ragged"])
def test_har_19_dropout_that_is_left_on_diverges(name: str, judged: Judged) -> None:
    verdicts = judged(name, left_on)
    assert verdicts.first_bad is not None
    assert verdicts.first_bad.name.endswith(".probs")


def test_har_19_recording_and_checking_leave_no_module_in_train_mode(recorded: Callable[..., Recording]) -> None:
    runners: list[EncoderDecoder] = []
    recorded("encdec/ragged", runners.append)
    assert not any(module.training for module in runners[0].model.modules())


def test_har_19_the_reference_never_runs_in_train_mode() -> None:
    definition = case("encdec/ragged")
    reference = load_reference(CHECKPOINTS / definition.encoder, CHECKPOINTS / definition.decoder)
    modules = [*reference.encoder.modules(), *reference.decoder.modules()]
    assert modules and not any(module.training for module in modules)
