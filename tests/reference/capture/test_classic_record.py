"""The classic encoder's goldens: torch's and Hugging Face's own numbers, from checkpoints that are what they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read, table
from qwen3_parity import check
from qwen3_parity.blame import replay
from qwen3_reference.capture import classic_bert, classic_torch
from qwen3_reference.capture.classic_record import record_classic
from qwen3_reference.capture.softmax_check import additive
from qwen3_reference.cases.classic import CLASSIC_CASES, ClassicCase, classic_inputs
from qwen3_reference.checkpoints.classic import CLASSIC_DEFINITIONS, ClassicDefinition, draw_classic, write_classic
from qwen3_reference.checkpoints.classic_configs import classic_config
from qwen3_reference.checkpoints.classic_weights import load_classic
from qwen3_reference.checkpoints.weights import checkpoint_message

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
CASES = {case.name: case for case in CLASSIC_CASES}
DIGESTS = {
    "classic-pre-norm": "519687b8dbf5f3b82a4a1a33c330d15c9a1d95859f4e18cb33663af2bf2e61dd",
    "classic-post-norm": "c05894b25c80f0956b801c13c3d68b23bb8596f119324f3659473ca56857091e",
    "classic-bert": "158f8ac49054e7caf0e3189440bd6762411faaba64af37a1e604e391ff78928b",
}
EMBEDDED = ("classic/pre_norm", "classic/post_norm")


def golden_of(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def world(case: ClassicCase) -> tuple[pb.ModelConfig, Any, dict[str, np.ndarray]]:
    directory = CHECKPOINTS / case.checkpoint
    config = classic_config(directory)
    return config, load_classic(directory), dict(classic_inputs(case, config))


@pytest.mark.parametrize("name", DIGESTS)
def test_a_classic_checkpoint_has_the_bytes_that_goldens_hang_on(name: str) -> None:
    assert checkpoint_message("encoder", CHECKPOINTS / name, name).sha256.hex() == DIGESTS[name]


@pytest.mark.parametrize("definition", CLASSIC_DEFINITIONS, ids=lambda one: one.name)
def test_a_classic_checkpoint_is_what_its_seed_draws(definition: ClassicDefinition) -> None:
    directory = CHECKPOINTS / definition.name
    drawn, stored = draw_classic(definition, directory), load_file(directory / "model.safetensors")
    assert drawn.keys() == stored.keys()
    assert [name for name in drawn if not np.array_equal(drawn[name], stored[name])] == []


@pytest.mark.parametrize("definition", CLASSIC_DEFINITIONS, ids=lambda one: one.name)
def test_classic_norms_are_away_from_1_and_biases_from_0(definition: ClassicDefinition) -> None:
    for name, value in load_file(CHECKPOINTS / definition.name / "model.safetensors").items():
        if "norm" in name and name.endswith("weight"):
            assert (np.abs(value - 1) > 0.1).all(), name
            assert np.array_equal(value * 1024, np.round(value * 1024)), name
        if name.endswith("bias"):
            assert np.abs(value).mean() > 0.1, name


def test_an_existing_classic_checkpoint_is_never_drawn_again(tmp_path: Path) -> None:
    write_classic(CLASSIC_DEFINITIONS[0], tmp_path / "once")
    with pytest.raises(ParityError, match="never drawn again"):
        write_classic(CLASSIC_DEFINITIONS[0], tmp_path / "once")


@pytest.mark.parametrize("name", CASES)
def test_a_classic_golden_can_be_recorded_again(name: str, tmp_path: Path) -> None:
    record_classic(CASES[name], CHECKPOINTS, tmp_path / "again.pb")
    again, golden = read(tmp_path / "again.pb"), golden_of(name)
    assert again.case == golden.case
    assert [item.key for item in again] == [item.key for item in golden]
    assert check(golden, again).exit_code == 0


@pytest.mark.parametrize("name", CASES)
def test_every_op_of_a_classic_golden_is_the_specifications(name: str) -> None:
    golden = golden_of(name)
    verdicts = replay(golden, load_classic(CHECKPOINTS / CASES[name].checkpoint))
    judged = [one for one in verdicts if not one.reason]
    assert len(judged) == len(verdicts)
    assert [f"{one.name}: {one.share:.2f}" for one in judged if one.errors.max > 8] == []


@pytest.mark.parametrize("name", CASES)
def test_taps_of_a_classic_golden_stand_in_the_order_of_the_network(name: str) -> None:
    seen: set[str] = set()
    for item in golden_of(name):
        assert set(item.info.inputs) <= seen, item.info.name
        seen.add(item.info.name)


def test_the_classic_goldens_have_every_place_of_both_networks() -> None:
    shown = {pattern for name in CASES for pattern in golden_of(name).run.materialised}
    places = {row.pattern for row in table() if row.pattern.startswith(("pre_norm.", "post_norm."))}
    assert places <= shown and "input.hidden_states" in shown


@pytest.mark.parametrize("name", EMBEDDED)
def test_recording_changes_no_bit_of_torchs_encoder(name: str) -> None:
    """Its weights are asked for, so that attention takes the path of separate steps, without any hook of ours."""
    config, weights, inputs = world(CASES[name])
    taps = classic_torch.run_torch(config, weights, inputs)
    stack = classic_torch.build(config, weights)
    prefix = "pre_norm" if config.classic_encoder.norm_first else "post_norm"
    mask = additive(torch.from_numpy(inputs["input.encoder_attention_mask"]), torch.float32)
    with torch.enable_grad():  # torch's fast path is for inference alone
        expected = torch.nn.TransformerEncoder.forward(
            stack, taps[f"{prefix}.embeddings"], src_key_padding_mask=mask
        ).detach()
    real = inputs["input.encoder_attention_mask"]
    last = taps["pre_norm.norm" if prefix == "pre_norm" else "post_norm.last_hidden_state"]
    # Its own attention is fused there, and rounds otherwise.
    torch.testing.assert_close(last[real], expected[real], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", EMBEDDED)
def test_torchs_attention_alone_gives_the_recorded_bits(name: str) -> None:
    config, weights, inputs = world(CASES[name])
    taps = classic_torch.run_torch(config, weights, inputs)
    stack = classic_torch.build(config, weights)
    prefix = "pre_norm" if config.classic_encoder.norm_first else "post_norm"
    mask = additive(torch.from_numpy(inputs["input.encoder_attention_mask"]), torch.float32)
    attention: Any = stack.layers[1].self_attn
    x = taps[f"{prefix}.layers.1.{'norm1' if prefix == 'pre_norm' else 'input'}"]
    with torch.enable_grad():
        output, probs = attention(x, x, x, key_padding_mask=mask, average_attn_weights=False)
    site = f"{prefix}.layers.1.self_attn"
    assert torch.equal(output, taps[f"{site}.out_proj"]) and torch.equal(probs, taps[f"{site}.probs"])


def test_recording_changes_no_bit_of_bert() -> None:
    config, weights, inputs = world(CASES["classic/bert"])
    taps = classic_bert.run_bert(config, weights, inputs)
    mask = additive(torch.from_numpy(inputs["input.encoder_attention_mask"])[:, None, None], torch.float32)
    with torch.no_grad():
        hidden = torch.from_numpy(inputs["input.hidden_states"])
        expected = classic_bert.build(config, weights)(hidden, attention_mask=mask).last_hidden_state
    assert torch.equal(taps["post_norm.last_hidden_state"], expected)


def test_a_row_of_padding_alone_is_finite_in_the_golden() -> None:
    golden = golden_of("classic/pre_norm")
    assert not golden["input.encoder_attention_mask", 0].array[2].any()
    assert all(np.isfinite(item.values()).all() for item in golden)


def test_weights_that_attention_did_not_use_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.nn.functional.multi_head_attention_forward

    def averaged(*args: Any, **kwargs: Any) -> Any:
        output, probs = plain(*args, **kwargs)
        return output, probs * 0.5

    monkeypatch.setattr(torch.nn.functional, "multi_head_attention_forward", averaged)
    with pytest.raises(ParityError, match="not those that it used"):
        classic_torch.run_torch(*world(CASES["classic/pre_norm"]))


def broken(tmp_path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], object]) -> Path:
    """A copy of a checkpoint, its config.json and tensors changed."""
    source = CHECKPOINTS / "classic-pre-norm"
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(source / "model.safetensors")
    change(config, tensors)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c, t: c.pop("norm_first"), "fields are missing(.|\n)*norm_first"),
        (lambda c, t: c.update(model_type="bert"), "unknown model_type"),
        (lambda c, t: c.update(rope_theta=1e4), "nothing reads(.|\n)*rope_theta"),
        (lambda c, t: c.update(hidden_size="12"), "hidden_size is out of bounds"),
        (lambda c, t: c.update(norm_first=1), "norm_first is not a switch"),
        (lambda c, t: c.update(num_attention_heads=5), "5 × head_dim 2 is not hidden_size 12"),
        (lambda c, t: c.update(num_attention_heads=0), "num_attention_heads is out of bounds"),
        (lambda c, t: t.pop("norm.bias"), r"tensors are missing(.|\n)*norm\.bias"),
        (lambda c, t: t.update(extra=np.zeros(2, np.float32)), "does not have(.|\n)*extra"),
        (lambda c, t: t.update({"norm.bias": np.zeros(3, np.float32)}), r"norm\.bias has another shape"),
        (lambda c, t: t.update({"norm.bias": np.full(12, np.nan, np.float32)}), r"norm\.bias is not finite"),
    ],
)
def test_a_broken_classic_checkpoint_is_refused(tmp_path: Path, change: Any, says: str) -> None:
    with pytest.raises(ParityError, match=says):
        load_classic(broken(tmp_path, change))
