"""Every path through a network is run by some case, and what was not run is a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_encdec import Qwen3ForSeq2SeqLM
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, Recording, pattern_of, pb, read, table
from qwen3_parity import check
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import goldens

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
Golden = Callable[[str], Recording]
Has = Callable[[Recording], Any]


def steps(recording: Recording) -> list[int]:
    return list(recording.case.steps)


def chunked(recording: Recording) -> bool:
    """A prompt in chunks: a later forward of several tokens."""
    return any(length > 1 for length in steps(recording)[1:])


def shards(recording: Recording) -> int:
    return max(len(list((CHECKPOINTS / one.name).glob("*.safetensors"))) for one in recording.case.checkpoint)


def unpadded_rows(recording: Recording, stack: str) -> int:
    """The rows of a batch without any padding and of more than one token, for which a mask may be left out."""
    mask = recording.get(f"input.{stack}_attention_mask")
    return len(mask.array) if mask and mask.array.all() and mask.array.shape[1] > 1 else 0


PATHS: dict[str, Has] = {
    "encoder alone": lambda r: r.case.mode == pb.ENCODER,
    "causal decoder alone": lambda r: r.case.mode == pb.CAUSAL,
    "encoder and decoder": lambda r: r.case.mode == pb.ENCODER_DECODER,
    "rotated encoder keys": lambda r: r.case.mode == pb.ENCODER_DECODER and r.case.config.rotate_encoder_keys,
    "encoder keys not rotated": lambda r: r.case.mode == pb.ENCODER_DECODER and not r.case.config.rotate_encoder_keys,
    "prefill": lambda r: steps(r)[:1] > [1],
    "four decode steps": lambda r: steps(r)[1:].count(1) >= 4,
    "a prompt in chunks": chunked,
    "a chunk of one step among decode steps": lambda r: any(
        a == 1 < b for a, b in zip(steps(r), steps(r)[1:], strict=False)
    ),
    "a second request": lambda r: r.case.after,
    "generation": lambda r: r.case.max_new_tokens,
    "generation with an encoder": lambda r: r.case.max_new_tokens and r.case.mode == pb.ENCODER_DECODER,
    "generation from padded prompts": lambda r: (
        r.case.max_new_tokens and not r["input.decoder_attention_mask", 0].array.all()
    ),
    "sliding window": lambda r: r.case.config.sliding_window,
    "layers without a window among those with one": lambda r: len(set(r.case.config.layer_types)) == 2,
    "Qwen2: biases, no QK-norm": lambda r: r.case.config.model_type == "qwen2",
    "Qwen3: biases on q, k, v and o": lambda r: r.case.config.attention_out_bias and r.case.config.use_qk_norm,
    "a batch that needs no encoder mask": lambda r: unpadded_rows(r, "encoder") > 1,
    "a batch that needs no decoder mask": lambda r: unpadded_rows(r, "decoder") > 1,
    "a head of its own": lambda r: not r.case.config.tie_word_embeddings,
    "a tied head": lambda r: r.case.config.tie_word_embeddings,
    "two directories": lambda r: len({one.name for one in r.case.checkpoint}) == 2,
    "one directory in both roles": lambda r: (
        len(r.case.checkpoint) == 2 and r.case.checkpoint[0].name == r.case.checkpoint[1].name
    ),
    "shards": lambda r: shards(r) > 1,
    "bfloat16": lambda r: r.run.arithmetic == pb.ARITHMETIC_BF16,
    "far positions": lambda r: any(t.info.op == "position_ids" and t.array.max() >= 4096 for t in r),
    "twelve layers": lambda r: r.case.config.num_hidden_layers >= 12,
}
"""What a run can go through, and how a golden shows that its case does."""


@pytest.mark.parametrize("path", PATHS)
def test_har_23_a_path_is_gone_through_by_some_case(path: str, networks: dict[str, Recording]) -> None:
    assert [name for name, recording in networks.items() if PATHS[path](recording)]


INNER = tuple(
    f".{name}"
    for name in (
        *("mlp.act", "mlp.gate_proj", "mlp.up_proj", "input_layernorm", "post_attention_layernorm", "probs", "scores"),
        *("q_rope", "k_rope", "q_norm", "k_norm", "q_proj", "k_proj", "v_proj"),
        *("encoder_k_rope", "encoder_k_norm", "encoder_k_proj", "encoder_v_proj"),
    )
)
"""Gradients within a block, which the cases of training show by those of the weights there and of the block's ends."""


def test_har_23_every_place_of_the_table_is_recorded_by_some_case(
    networks: dict[str, Recording], golden: Golden
) -> None:
    known = (*networks.values(), golden("block/bidirectional"))
    recorded = {pattern_of(item.info.name) for recording in known for item in recording}
    rows = {row.pattern for row in table() if not row.pattern.startswith(("pre_norm.", "post_norm.", "input.hidden"))}
    inner = {row for row in rows if row.startswith("gradient.") and row.endswith(INNER)}
    assert rows - inner <= recorded
    assert {row.removeprefix("gradient.") for row in inner} <= recorded


def test_har_23_every_committed_case_is_among_those_that_are_judged(networks: dict[str, Recording]) -> None:
    assert set(networks) <= {read(path).case.name for path in goldens(kinds=())}


def only_step_0(recording: Recording) -> Recording:
    return replace(recording, tensors=[item for item in recording if item.info.step == 0])


def only_later_steps(recording: Recording) -> Recording:
    kept = [item for item in recording if item.info.step or item.info.name.startswith("input.")]
    return replace(recording, tensors=kept)


@pytest.mark.parametrize(("part", "steps"), [(only_step_0, {1, 2, 3, 4}), (only_later_steps, {0})])
def test_har_23_a_run_without_its_prefill_or_without_its_decode_steps_fails(
    part: Callable[[Recording], Recording], steps: set[int], golden: Golden
) -> None:
    recording = golden("decoder/ragged_decode")
    verdicts = check(recording, part(recording))
    assert verdicts.exit_code == 1 and verdicts.missing > 60
    assert {int(p.where.rpartition("step ")[2][:-1]) for p in verdicts.problems} == steps


def test_har_23_a_generation_that_was_not_run_fails(golden: Golden) -> None:
    recording = golden("decoder/generation")
    silent = replace(recording, tensors=[t for t in recording if t.info.name != "generated_ids"])
    (problem,) = check(recording, silent).problems
    assert (problem.where, problem.rule) == ("generated_ids (step 0)", "missing tap")


@pytest.mark.parametrize("name", ["encoder/one_token", "decoder/generation", "encdec/second_request", "long/deep"])
def test_har_23_a_run_that_delivers_nothing_is_zero_comparisons(name: str, golden: Golden) -> None:
    recording = golden(name)
    inputs = [item for item in recording if item.info.name.startswith("input.")]
    verdicts = check(recording, replace(recording, tensors=inputs, run=pb.Run()))
    assert verdicts.exit_code == 1
    assert any("zero comparisons" in problem.rule for problem in verdicts.problems)


def test_har_23_a_second_request_needs_its_first(golden: Golden, tmp_path: Path) -> None:
    seen: list[str] = []

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
        return lambda case, *_: seen.append(case.name)

    record(golden("encdec/second_request"), tmp_path / "seen.pb", build, digests=False)
    assert seen == ["encdec/window", "encdec/second_request"]


Loader = Callable[[Path, Mapping[str, Path]], Qwen3ForSeq2SeqLM]


def by_load_qwen3(_folder: Path, checkpoints: Mapping[str, Path]) -> Qwen3ForSeq2SeqLM:
    return load_qwen3(checkpoints["decoder"], checkpoints["encoder"])


def by_saving_and_loading(folder: Path, checkpoints: Mapping[str, Path]) -> Qwen3ForSeq2SeqLM:
    by_load_qwen3(folder, checkpoints).save_pretrained(folder)
    loaded = Qwen3ForSeq2SeqLM.from_pretrained(folder)
    assert isinstance(loaded, Qwen3ForSeq2SeqLM)
    return loaded


def by_shards(folder: Path, checkpoints: Mapping[str, Path]) -> Qwen3ForSeq2SeqLM:
    by_load_qwen3(folder, checkpoints).save_pretrained(folder, max_shard_size="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    loaded = Qwen3ForSeq2SeqLM.from_pretrained(folder)
    assert isinstance(loaded, Qwen3ForSeq2SeqLM)
    return loaded


def by_state_dict(folder: Path, checkpoints: Mapping[str, Path]) -> Qwen3ForSeq2SeqLM:
    source = by_load_qwen3(folder, checkpoints)
    model = Qwen3ForSeq2SeqLM(source.config)
    model.load_state_dict(source.state_dict())
    return model


LOADERS: dict[str, Loader] = {
    "load_qwen3": by_load_qwen3,
    "save_pretrained, from_pretrained": by_saving_and_loading,
    "from_pretrained, sharded": by_shards,
    "load_state_dict": by_state_dict,
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("name", ["encdec/ragged", "encdec/qwen2"])
def test_har_23_a_model_from_any_loader_is_at_parity(name: str, loader: str, golden: Golden, tmp_path: Path) -> None:
    assert judged_as_loaded(golden(name), LOADERS[loader], tmp_path).exit_code == 0


def test_har_23_a_loader_that_forgets_a_tensor_is_found(golden: Golden, tmp_path: Path) -> None:
    def forgetful(folder: Path, checkpoints: Mapping[str, Path]) -> Qwen3ForSeq2SeqLM:
        model = by_load_qwen3(folder, checkpoints)
        torch.nn.init.ones_(model.encoder.layers[1].self_attn.k_norm.weight)
        return model

    verdicts = judged_as_loaded(golden("encdec/ragged"), forgetful, tmp_path)
    assert verdicts.problems[0].rule.endswith(": encoder.layers.1.self_attn.k_norm.weight")


def judged_as_loaded(recording: Recording, loader: Loader, folder: Path) -> Verdicts:
    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
        return EncoderDecoder(loader(folder / "model", checkpoints), "eager")

    record(recording, folder / "candidate.pb", build, digests=False)
    return check(recording, read(folder / "candidate.pb"))
