"""The checkpoints of the committed models: loud, drawn once, and what their definitions say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, ParityError, read
from qwen3_reference.cases.models import MODEL_CASES, ModelCase
from qwen3_reference.graph.committed import write_checkpoint
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import tiny_model

BY_NAME = {case.checkpoint: case for case in MODEL_CASES}


@pytest.mark.parametrize("name", ["qwen3-moe-bfloat16", "qwen3.5-moe"])
def test_a_definition_draws_the_committed_weights(checkpoints: Path, name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    write_checkpoint(case, tmp_path / name)
    dtype = getattr(torch, case.dtype)
    drawn, committed = (load(folder / name, dtype).state_dict() for folder in (tmp_path, checkpoints))
    assert drawn.keys() == committed.keys()
    for key, value in drawn.items():
        assert value.dtype == committed[key].dtype == dtype
        torch.testing.assert_close(value, committed[key], rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == ["config.json", "model.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.checkpoint)
def test_a_definition_has_the_committed_numbers(checkpoints: Path, case: ModelCase) -> None:
    drawn = tiny_model(case.family, case.seed, case.config).config.to_dict()
    committed = load(checkpoints / case.checkpoint).config.to_dict()
    for said in (drawn, committed):
        for key in ("_name_or_path", "architectures", "dtype"):
            said.pop(key, None)
    assert drawn == committed


def test_a_checkpoint_that_is_there_is_never_drawn_again(checkpoints: Path) -> None:
    before = (checkpoints / "gemma3" / "model.safetensors").read_bytes()
    with pytest.raises(ParityError, match="never drawn again"):
        write_checkpoint(BY_NAME["gemma3"], checkpoints / "gemma3")
    assert (checkpoints / "gemma3" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.checkpoint)
def test_the_weights_are_loud_and_the_sizes_tell_axes_apart(checkpoints: Path, case: ModelCase) -> None:
    model = load(checkpoints / case.checkpoint, getattr(torch, case.dtype))
    config = model.config
    assert len({config.num_attention_heads, config.num_key_value_heads, config.head_dim}) == 3
    groups = config.num_attention_heads // config.num_key_value_heads
    assert groups != config.num_key_value_heads and config.hidden_size != groups * config.head_dim
    experts = {getattr(config, name, 11) for name in ("num_experts", "num_local_experts")}
    assert experts == {11}
    if "linear_attention" in (getattr(config, "layer_types", None) or ()):
        keys, values = config.linear_num_key_heads, config.linear_num_value_heads
        assert len({keys, values, values // keys, config.linear_key_head_dim, config.linear_value_head_dim}) == 5
    for name, value in model.named_parameters():
        if value.ndim == 1 and name.endswith("weight"):
            assert float((value - 1).abs().mean()) > 0.2, name
        elif name.endswith("bias"):
            assert float(value.abs().mean()) > 0.2, name
    rows = model.get_input_embeddings().weight.float().pow(2).mean(-1).sqrt()
    assert {5, 9} <= {int(token) for token in (rows < 0.01).nonzero()}


def test_the_settings_that_hide_one_another_stand_in_cases_of_their_own() -> None:
    moe = [case for case in MODEL_CASES if case.family == "qwen3_moe"]
    assert {bool(case.config["norm_topk_prob"]) for case in moe} == {True, False}
    assert {case.dtype for case in moe} == {"float32", "bfloat16"}
    (dense,) = (case for case in moe if case.config.get("mlp_only_layers"))
    assert dense.config["decoder_sparse_step"] == 2 and dense.config["num_hidden_layers"] == 4


def test_what_one_side_of_padding_hides_stands_on_the_other() -> None:
    cases = {case.name.rpartition("/")[2]: case for case in MODEL_CASES if case.around}
    vectors, scores = (read(GOLDEN_ROOT / "cases" / f"{cases[name].name}.pb") for name in ("embedding", "reranker"))
    assert vectors["embedding", 0].array.shape == (8, 11) and not vectors["input.attention_mask", 0].array[:, -1].all()
    answers = scores["score", 0].array
    assert answers.shape == (8,) and answers.min() > 0.02 and answers.max() < 0.98 and np.ptp(answers) > 0.2
    assert scores["input.attention_mask", 0].array[:, -1].all()
    assert cases["embedding"].checkpoint == cases["reranker"].checkpoint
