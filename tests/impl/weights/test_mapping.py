"""The mapping table covers both sides of every family, and loading takes it at its word."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM, Qwen3WeightMapper, load_qwen3
from qwen3_encdec.weights import mapping as weight_mapping
from qwen3_encdec.weights.mapping import HEAD, SHARED, STACKS, TABLE, pairs

VARIANTS = [
    {"family": "qwen3"},
    {"family": "qwen3", "attention_bias": True},
    {"family": "qwen3", "tie_word_embeddings": False},
    {"family": "qwen2"},
    {"family": "qwen2", "tie_word_embeddings": False},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_tensor_of_hugging_faces_model_is_a_source_in_both_stacks(make_hf: Any, variant: Any) -> None:
    hf = make_hf(**variant)
    table = pairs(Qwen3EncoderDecoderConfig.from_qwen3_config(hf.config, 0))
    names = set(hf.state_dict())
    assert {pair.source for pair in table if pair.stack == "decoder"} == names
    assert {pair.source for pair in table if pair.stack == "encoder"} == names - {HEAD}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_every_parameter_of_ours_is_a_target_once_in_its_stack(make_hf: Any, variant: Any) -> None:
    config = Qwen3EncoderDecoderConfig.from_qwen3_config(make_hf(**variant).config, 0)
    with torch.device("meta"):
        ours = {name for name, _ in Qwen3ForSeq2SeqLM(config).named_parameters(remove_duplicate=False)}
    targets = [pair.target for pair in pairs(config)]
    assert set(targets) == ours - {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    assert sorted(targets) == sorted([*set(targets), SHARED])


def test_a_pattern_stands_in_the_table_once() -> None:
    for patterns in ([row.source for row in TABLE], [row.target for row in TABLE]):
        assert len(patterns) == len(set(patterns))


def test_only_the_head_belongs_to_one_stack() -> None:
    assert {row.source for row in TABLE if set(row.stacks) != set(STACKS)} == {HEAD}


def test_fact_6_the_final_norm_is_called_norm_in_both_stacks(make_config: Any) -> None:
    found = {pair.target for pair in pairs(make_config()) if pair.source == "model.norm.weight"}
    assert found == {"encoder.norm.weight", "decoder.norm.weight"}


def test_each_stack_calls_its_attention_by_its_own_name(make_config: Any) -> None:
    found = {pair.target for pair in pairs(make_config()) if pair.source == "model.layers.2.self_attn.k_norm.weight"}
    assert found == {"encoder.layers.2.self_attn.k_norm.weight", "decoder.layers.2.merged_attn.k_norm.weight"}


@pytest.mark.parametrize("family", ["qwen3", "qwen2"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_layers_tensors_are_those_of_the_loaded_model(save_hf: Any, family: str, stack: str) -> None:
    hf, directory = save_hf(family=family)
    found = Qwen3WeightMapper()._map_layer_weights(hf.state_dict(), 1, stack)
    loaded = load_qwen3(directory).state_dict()
    assert found.keys() == {name for name in loaded if name.startswith(f"{stack}.layers.1.")}
    assert all(torch.equal(tensor, loaded[name]) for name, tensor in found.items())


@pytest.mark.parametrize(
    ("edit", "stack", "named"),
    [
        (lambda state: state.pop("model.layers.1.mlp.up_proj.weight"), "encoder", "lacks.*mlp.up_proj"),
        (
            lambda state: state.update({"model.layers.1.mlp.up.bias": torch.ones(1)}),
            "decoder",
            "mlp.up.bias.* not in the table",
        ),
        (lambda state: None, "cross", "stack = 'cross'; expected one of encoder, decoder"),
    ],
)
def test_a_layer_that_is_not_the_tables_is_refused(make_hf: Any, edit: Any, stack: str, named: str) -> None:
    state = dict(make_hf().state_dict())
    edit(state)
    with pytest.raises(ValueError, match=named):
        Qwen3WeightMapper()._map_layer_weights(state, 1, stack)


def _refusal(directory: Any) -> str:
    with pytest.raises(ValueError) as caught:
        load_qwen3(directory)
    return str(caught.value)


def test_a_parameter_without_a_row_stops_the_loading(save_hf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, directory = save_hf()
    monkeypatch.setattr(weight_mapping, "TABLE", tuple(row for row in TABLE if "k_norm" not in row.source))
    message = _refusal(directory)
    for layer in range(3):
        assert f"model.layers.{layer}.self_attn.k_norm.weight (10,), expected no such tensor" in message
        assert f"unmapped: encoder.layers.{layer}.self_attn.k_norm.weight (10,)" in message
        assert f"unmapped: decoder.layers.{layer}.merged_attn.k_norm.weight (10,)" in message


def test_a_row_without_a_parameter_stops_the_loading(save_hf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, directory = save_hf()
    wrong = {"model.norm.weight": "{stack}.final_layernorm.weight"}
    table = tuple(replace(row, target=wrong.get(row.source, row.target)) for row in TABLE)
    monkeypatch.setattr(weight_mapping, "TABLE", table)
    message = _refusal(directory)
    for stack in STACKS:
        assert f"unmapped: {stack}.final_layernorm.weight, the model has no such parameter" in message
        assert f"unmapped: {stack}.norm.weight (40,), the table has no tensor for it" in message
