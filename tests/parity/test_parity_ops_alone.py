"""Every op by itself, in rounding units of the specification: Hugging Face's, and ours on Hugging Face's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from committed import committed
from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, read
from qwen3_parity import OpVerdict, replay
from qwen3_parity.blame.tap_judge import TapJudge
from qwen3_parity.checkpoints.weights import checkpoint_directories, weights_of
from qwen3_parity.recording.ours.alone import OPS, alone
from qwen3_parity.recording.ours.network import EncoderDecoder, factory, golden_dtype
from qwen3_parity.recording.suite import goldens

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
MODELS = [path for path in goldens() if committed(path).case.mode != pb.OP]
QWEN3 = [path for path in MODELS if committed(path).case.mode != pb.CLASSIC_ENCODER]
each_golden = pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.stem}")
UNITS = 8


def parameters(golden: Recording) -> Mapping[str, Array]:
    return weights_of(golden, CHECKPOINTS)


def on_the_goldens_inputs(golden: Recording, candidate: Recording) -> list[OpVerdict]:
    weights = parameters(golden)
    judge = TapJudge.of(golden, weights, golden)
    keys = {item.key for item in judge.taps()}
    return [judge.alone(item)[0] for item in candidate if item.key in keys]


def explain(verdicts: list[OpVerdict]) -> str:
    return "\n".join(
        f"{v.name} (step {v.step}): {v.errors.max:.3g} units, {v.share:.3g} × its headroom" for v in verdicts
    )


@pytest.mark.sample(every=3)
@each_golden
def test_hugging_face_agrees_with_the_specification_at_every_op(path: Path) -> None:
    golden = read(path)
    judged = [v for v in replay(golden, parameters(golden)) if not v.reason]
    wrong = [v for v in judged if not (v.errors.max <= UNITS and v.passed)]
    assert judged and not wrong, explain(wrong)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("path", QWEN3, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_op_of_ours_is_right_on_hugging_faces_inputs(path: Path) -> None:
    golden = read(path)
    runner = factory(dtype=golden_dtype(golden))(golden.case, checkpoint_directories(golden.case, CHECKPOINTS))
    assert isinstance(runner, EncoderDecoder)
    judged = [v for v in on_the_goldens_inputs(golden, alone(golden, runner.model)) if not v.reason]
    assert judged and all(v.passed for v in judged), explain([v for v in judged if not v.passed])


def test_every_op_that_stands_alone_is_judged_in_some_golden() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb")
    judged = replay(golden, parameters(golden))
    assert set(OPS) <= {v.op for v in judged if not v.reason}


def test_an_op_with_another_epsilon_is_seen_alone() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "encoder" / "ragged.pb")
    runner = factory()(golden.case, checkpoint_directories(golden.case, CHECKPOINTS))
    assert isinstance(runner, EncoderDecoder)
    norm = runner.model.encoder.layers[1].input_layernorm
    norm.variance_epsilon = norm.variance_epsilon * 30
    wrong = [v for v in on_the_goldens_inputs(golden, alone(golden, runner.model)) if not v.passed]
    assert [v.name for v in wrong] == ["encoder.layers.1.input_layernorm"]
