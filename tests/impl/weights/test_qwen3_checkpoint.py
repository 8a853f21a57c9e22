"""`load_qwen3`: everything in the checkpoint is used, everything in the model filled, and all else refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from qwen3_encdec import load_qwen3
from qwen3_encdec.weights.mapping import pairs

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def _edit_tensors(directory: Path, edit: Any) -> None:
    tensors = load_file(directory / "model.safetensors")
    edit(tensors)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _edit_config(directory: Path, **fields: Any) -> None:
    path = directory / "config.json"
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))


def _refusal(*directories: Path, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:
        load_qwen3(*directories, **options)
    return str(caught.value)


@pytest.mark.parametrize("family", ["qwen3", "qwen2"])
@pytest.mark.parametrize("tied", [True, False])
def test_every_source_tensor_lands_in_both_stacks(save_hf: Any, family: str, tied: bool) -> None:
    hf, directory = save_hf(family=family, tie_word_embeddings=tied)
    model = load_qwen3(directory)
    state, theirs = model.state_dict(), hf.state_dict()
    for pair in pairs(model.config):
        torch.testing.assert_close(state[pair.target], theirs[pair.source], rtol=0, atol=0)
    assert {pair.source for pair in pairs(model.config)} == set(theirs)
    ties = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    assert {pair.target for pair in pairs(model.config)} == set(state) - ties
    members = [model.encoder.embed_tokens, model.decoder.embed_tokens, *([model.lm_head] if tied else [])]
    assert all(member.weight is model.shared.weight for member in members)
    assert not model.training


def test_stacks_from_one_directory_share_no_storage_but_the_embedding(save_hf: Any) -> None:
    _, directory = save_hf()
    model = load_qwen3(directory)
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(pointers) == len(set(pointers)) == 1 + 2 * (3 * 11 + 1)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("tied", [True, False])
def test_two_directories_give_each_stack_its_own_weights(save_hf: Any, make_hf: Any, tied: bool) -> None:
    decoder, decoder_directory = save_hf("decoder", tie_word_embeddings=tied)
    encoder = make_hf(seed=2, tie_word_embeddings=tied)
    encoder.model.embed_tokens.weight.data.copy_(decoder.model.embed_tokens.weight.data)
    _, encoder_directory = save_hf("encoder", encoder)
    model = load_qwen3(decoder_directory, encoder_directory)
    torch.testing.assert_close(model.encoder.norm.weight, encoder.model.norm.weight, rtol=0, atol=0)
    torch.testing.assert_close(model.decoder.norm.weight, decoder.model.norm.weight, rtol=0, atol=0)
    torch.testing.assert_close(model.lm_head.weight, decoder.lm_head.weight, rtol=0, atol=0)


def test_different_embeddings_in_the_two_directories_are_refused(save_hf: Any) -> None:
    _, first = save_hf("first")
    _, second = save_hf("second", seed=2)
    assert f"{EMBEDDING} differs from the encoder checkpoint's" in _refusal(first, second)


def test_different_configs_in_the_two_directories_are_refused(save_hf: Any) -> None:
    _, first = save_hf("first")
    _, second = save_hf("second")
    _edit_config(second, rms_norm_eps=1e-3)
    message = _refusal(first, second)
    assert "rms_norm_eps: 0.001" in message and "1e-05" in message


def test_fact_11_tied_checkpoint_with_and_without_a_stored_head_loads(save_hf: Any) -> None:
    hf, directory = save_hf()
    without = load_qwen3(directory)
    _edit_tensors(directory, lambda t: t.update({HEAD: t[EMBEDDING].clone()}))
    with_head = load_qwen3(directory)
    for model in (without, with_head):
        assert model.lm_head.weight is model.shared.weight
        torch.testing.assert_close(model.lm_head.weight, hf.lm_head.weight, rtol=0, atol=0)


def test_missing_extra_and_mis_shaped_tensors_are_all_named_at_once(save_hf: Any) -> None:
    _, directory = save_hf()

    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["model.layers.1.self_attn.k_norm.weight"]
        tensors["model.final_norm.weight"] = tensors.pop("model.norm.weight")
        tensors["model.layers.0.mlp.up_proj.weight"] = torch.zeros(55, 40)
        tensors["model.layers.2.self_attn.o_proj.weight"] = torch.zeros(40, 60, dtype=torch.int32)

    _edit_tensors(directory, damage)
    message = _refusal(directory)
    assert f"missing: {directory}: model.layers.1.self_attn.k_norm.weight, expected (10,)" in message
    assert f"missing: {directory}: model.norm.weight" in message
    assert "extra: " in message and "model.final_norm.weight (40,)" in message
    assert "model.layers.0.mlp.up_proj.weight, expected (56, 40), got (55, 40)" in message
    assert "model.layers.2.self_attn.o_proj.weight, expected F32, BF16, F16, got I32" in message
    assert "next:" in message


def test_more_layers_than_configured_are_extra_tensors(save_hf: Any) -> None:
    _, directory = save_hf()
    _edit_config(directory, num_hidden_layers=2, layer_types=...)
    assert "extra: " in _refusal(directory)


def test_theta_is_never_defaulted(save_hf: Any) -> None:
    _, directory = save_hf()
    _edit_config(directory, rope_parameters=...)
    assert "rope_theta is missing" in _refusal(directory)
    _edit_config(directory, rope_theta=12_345.0)
    assert load_qwen3(directory).config.rope_theta == 12_345.0


def _shards(directory: Path) -> tuple[Path, Path]:
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, part in halves.items():
        save_file({name: tensors[name] for name in part}, directory / shard)
    index = {"weight_map": {name: shard for shard, part in halves.items() for name in part}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory / "a.safetensors", directory / "b.safetensors"


def test_sharded_checkpoint_loads_the_same_bits(save_hf: Any) -> None:
    hf, directory = save_hf()
    _shards(directory)
    actual = load_qwen3(directory).decoder.layers[2].mlp.down_proj.weight
    torch.testing.assert_close(actual, hf.model.layers[2].mlp.down_proj.weight, rtol=0, atol=0)


def test_dtype_is_the_stored_one_unless_asked_otherwise(save_hf: Any, make_hf: Any) -> None:
    _, directory = save_hf("half", make_hf().bfloat16())
    assert load_qwen3(directory).dtype == torch.bfloat16
    wide = load_qwen3(directory, dtype=torch.float32)
    assert {parameter.dtype for parameter in wide.parameters()} == {torch.float32}
    _edit_tensors(directory, lambda t: t.update({"model.norm.weight": t["model.norm.weight"].float()}))
    assert "mixed dtypes: torch.bfloat16, torch.float32" in _refusal(directory)
    assert load_qwen3(directory, dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize("tied", [True, False])
def test_sentinel_rows_are_appended_with_the_statistics_of_the_others(save_hf: Any, tied: bool) -> None:
    hf, directory = save_hf(tie_word_embeddings=tied)
    model = load_qwen3(directory, num_sentinel_tokens=50)
    assert (model.config.vocab_size, model.config.num_sentinel_tokens) == (147, 50)
    for module, source in ((model.shared, hf.model.embed_tokens), (model.lm_head, hf.lm_head)):
        assert tuple(module.weight.shape) == (147, 40)
        torch.testing.assert_close(module.weight[:97], source.weight, rtol=0, atol=0)
        new = module.weight[97:].detach()
        assert abs(float(new.mean() - source.weight.detach().mean())) < 0.1
        assert abs(float(new.std() / source.weight.detach().std()) - 1) < 0.1
    assert torch.equal(load_qwen3(directory, num_sentinel_tokens=50).shared.weight, model.shared.weight)


def test_rotation_of_encoder_keys_is_chosen_at_loading(save_hf: Any) -> None:
    _, directory = save_hf()
    assert load_qwen3(directory).config.rotate_encoder_keys is True
    assert load_qwen3(directory, rotate_encoder_keys=False).config.rotate_encoder_keys is False


def test_loaded_checkpoint_survives_saving(save_hf: Any, ids: Any, tmp_path: Path) -> None:
    _, directory = save_hf()
    model = load_qwen3(directory)
    model.save_pretrained(tmp_path / "again")
    loaded = type(model).from_pretrained(tmp_path / "again")
    expected = model(ids(1, 3), decoder_input_ids=ids(1, 2)).logits
    torch.testing.assert_close(loaded(ids(1, 3), decoder_input_ids=ids(1, 2)).logits, expected, rtol=0, atol=0)
