"""Blame with some of the taps: the smallest group that holds the mistake is named, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from committed import committed
from qwen3_golden import GOLDEN_ROOT, pattern_of, pb, read, selected
from qwen3_parity import check, replay
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.recording.ours.classic import ClassicEncoder
from qwen3_parity.recording.ours.network import EncoderDecoder, factory, golden_dtype
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import goldens
from qwen3_parity.recording.tap_sets import TAP_SETS

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
MODELS = {f"{path.parent.name}/{path.stem}": path for path in goldens() if committed(path).case.mode != pb.OP}
SAMPLE = (
    *("classic/post_norm", "decoder/window_chunks", "encdec/bfloat16", "encdec/qwen2", "encdec/ragged"),
    *("encdec/second_request", "encoder/window_odd", "generation/merged", "long/deep", "training/tied"),
)
"""Of each kind a golden that `make test` takes; `make slow` takes them all."""
SITE = "decoder.layers.{layer}.merged_attn"


def recorded(path, out, granularity, backend="eager", change=lambda model: None):
    golden = read(path)

    def build(case, checkpoints):
        runner = factory(backend, golden_dtype(golden))(case, checkpoints)
        assert isinstance(runner, EncoderDecoder | ClassicEncoder)
        change(runner.model)
        return runner

    record(golden, out, build, taps=TAP_SETS[granularity])
    return golden, read(out)


def blamed(golden, candidate):
    return {
        verdict.name: verdict
        for verdict in replay(candidate, weights_of(golden, CHECKPOINTS), golden)
        if not verdict.passed
    }


@pytest.mark.sample(every=7)
@pytest.mark.parametrize("granularity", ["fused", "modules", "sub-layer", "layer", "logits"])
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=name, marks=[] if name in SAMPLE else pytest.mark.slow) for name, path in MODELS.items()],
)
def test_an_honest_run_with_some_of_the_taps_is_judged_whole_and_blames_nobody(path, granularity, tmp_path):
    if not any(selected(item.info.name, TAP_SETS[granularity]) for item in read(path)):
        pytest.skip("the golden has no such tap")
    golden, candidate = recorded(path, tmp_path / "some.pb", granularity, backend="sdpa")
    verdicts = replay(candidate, weights_of(golden, CHECKPOINTS), golden)
    assert check(golden, candidate).exit_code == 0
    assert [verdict.name for verdict in verdicts if not verdict.passed] == []
    if path.stem != "last_rows":  # what reads rows that were left out cannot be judged alone
        assert [verdict.name for verdict in verdicts if verdict.reason] == []


def test_the_sample_is_of_goldens_that_exist():
    assert set(SAMPLE) <= set(MODELS)


def wrong_activation(model):
    model.decoder.layers[1].mlp.act_fn = torch.nn.GELU()


def wrong_scale(model):
    model.decoder.layers[2].merged_attn.scaling *= 1.01


@pytest.mark.parametrize(
    ("granularity", "change", "tap", "among"),
    [
        ("all", wrong_activation, "decoder.layers.1.mlp.act", set()),
        ("sub-layer", wrong_activation, "decoder.layers.1.mlp.down_proj", {"decoder.layers.{layer}.mlp.act"}),
        ("layer", wrong_activation, "decoder.layers.1.output", {"decoder.layers.{layer}.mlp.act"}),
        ("sub-layer", wrong_scale, "decoder.layers.2.merged_attn.o_proj", {f"{SITE}.scores"}),
        ("layer", wrong_scale, "decoder.layers.2.output", {f"{SITE}.scores"}),
    ],
)
def test_the_group_that_holds_the_mistake_is_blamed_alone(granularity, change, tap, among, tmp_path):
    path = GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb"
    verdicts = blamed(*recorded(path, tmp_path / "some.pb", granularity, change=change))
    assert set(verdicts) == {tap}
    assert among <= {pattern_of(name) for name in verdicts[tap].others}


def test_a_mistake_inside_fused_attention_is_blamed_on_the_ops_that_have_no_tap(tmp_path):
    path = GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb"
    verdicts = blamed(*recorded(path, tmp_path / "some.pb", "all", backend="sdpa", change=wrong_scale))
    assert {(name, verdict.others) for name, verdict in verdicts.items()} == {
        (
            "decoder.layers.2.merged_attn.context",
            ("decoder.layers.2.merged_attn.probs", "decoder.layers.2.merged_attn.scores"),
        )
    }


def test_the_taps_asked_for_are_the_taps_declared_and_delivered(tmp_path):
    path = GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb"
    golden, candidate = recorded(path, tmp_path / "some.pb", "layer")
    globs = TAP_SETS["layer"]
    assert {t.info.name for t in candidate if not t.info.name.startswith("input.")} == {
        t.info.name for t in golden if selected(t.info.name, globs) and not t.info.name.startswith("input.")
    }
    assert list(candidate.run.materialised) == [p for p in golden.run.materialised if selected(p, globs)]


def test_an_error_of_one_head_does_not_drown_in_the_tap(tmp_path):
    golden, candidate = recorded(GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb", tmp_path / "all.pb", "all")
    weights = weights_of(golden, CHECKPOINTS)
    honest = next(
        verdict for verdict in replay(candidate, weights, golden) if verdict.name.endswith("0.merged_attn.context")
    )
    tensor = candidate[honest.name, honest.step]
    spoilt = tensor.array.copy()
    spoilt[:, :, 1] *= np.float32(1 + 2e-6)
    object.__setattr__(tensor, "array", spoilt)
    spoilt_verdict = next(verdict for verdict in replay(candidate, weights, golden) if verdict.name == honest.name)
    assert spoilt_verdict.errors.head > 2 * spoilt_verdict.errors.rms > 0
