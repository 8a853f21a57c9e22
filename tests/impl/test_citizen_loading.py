"""The Auto classes, `from_pretrained`'s options, other dtypes, the ties on disk, and a resized vocabulary."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM

BACKENDS = ["eager", "sdpa", pytest.param("flex_attention", marks=pytest.mark.slow)]  # the last compiles its kernels
PARTS = ["shared", "encoder", "decoder", "lm_head"]
TIED = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}


@pytest.fixture(scope="module")
def saved(make_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved")
    make_model(num_hidden_layers=2).save_pretrained(directory)
    return directory


def test_auto_config_of_a_saved_model_is_its_config(saved: Path, make_model: Any) -> None:
    config = AutoConfig.from_pretrained(saved)
    assert type(config) is Qwen3EncoderDecoderConfig
    assert json.loads((saved / "config.json").read_text())["architectures"] == ["Qwen3ForSeq2SeqLM"]
    expected = make_model(num_hidden_layers=2).config.to_dict()
    changed = {name for name, value in config.to_dict().items() if expected[name] != value}
    assert changed == {"architectures", "dtype", "_name_or_path"}
    empty = AutoModelForSeq2SeqLM.from_config(config)
    assert type(empty) is Qwen3ForSeq2SeqLM and empty.lm_head.weight is empty.shared.weight


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, inside its compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, "float16"], ids=str)
@pytest.mark.parametrize("device_map", [{"": "cpu"}, "auto"], ids=["cpu", "auto"])
@pytest.mark.parametrize("backend", BACKENDS)
@torch.no_grad()
def test_a_model_is_loaded_as_asked(saved: Path, ids: Any, dtype: Any, device_map: Any, backend: str) -> None:
    options = {"dtype": dtype, "device_map": device_map, "attn_implementation": backend}
    loaded = AutoModelForSeq2SeqLM.from_pretrained(saved, **options)
    assert type(loaded) is Qwen3ForSeq2SeqLM and not loaded.training
    wanted = torch.float16 if dtype == "float16" else dtype
    assert {parameter.dtype for parameter in loaded.parameters()} == {wanted}
    for part in (loaded, loaded.encoder, loaded.decoder):
        assert part.config._attn_implementation == backend
    for stack in (loaded.encoder, loaded.decoder):
        assert stack.embed_tokens.weight is loaded.shared.weight and stack.rotary_emb.inv_freq.dtype == torch.float32
    assert loaded.lm_head.weight is loaded.shared.weight and loaded.device == torch.device("cpu")
    plain = Qwen3ForSeq2SeqLM.from_pretrained(saved, dtype=dtype, attn_implementation="eager")
    expected = plain(ids(2, 4), decoder_input_ids=ids(2, 3)).logits
    actual = loaded(ids(2, 4), decoder_input_ids=ids(2, 3)).logits
    assert actual.dtype == wanted
    tolerance = {torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.4}[wanted]  # logits are about 20 wide
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@torch.no_grad()
def test_a_converted_model_runs_and_stays_finite(make_model: Any, ids: Any, dtype: torch.dtype) -> None:
    model = make_model(attn_implementation="sdpa")
    frequencies = model.encoder.rotary_emb.inv_freq.clone()
    exact = model(ids(2, 4), decoder_input_ids=ids(2, 3)).logits
    model = model.half() if dtype == torch.float16 else model.bfloat16()
    output = model(ids(2, 4), labels=ids(2, 3), decoder_input_ids=ids(2, 3))
    assert output.logits.dtype == dtype and output.loss.dtype == torch.float32
    assert bool(output.logits.isfinite().all()) and bool(output.loss.isfinite())
    assert float((output.logits - exact).abs().max()) < 0.1 * float(exact.abs().max())
    for stack in (model.encoder, model.decoder):
        assert stack.rotary_emb.inv_freq.dtype == torch.float32
        assert torch.equal(stack.rotary_emb.inv_freq, frequencies)
    for cache in (None, "static"):
        shown = model.generate(
            ids(2, 4), max_new_tokens=4, output_logits=True, return_dict_in_generate=True, cache_implementation=cache
        )
        assert bool(torch.stack(shown.logits).isfinite().all())


@pytest.mark.parametrize("device_map", ["cpu", torch.device("cpu"), dict.fromkeys(PARTS, "cpu")], ids=str)
def test_a_device_map_of_any_form_keeps_the_ties(saved: Path, device_map: Any) -> None:
    loaded = AutoModelForSeq2SeqLM.from_pretrained(saved, device_map=device_map)
    assert loaded.device == torch.device("cpu")
    shared = loaded.shared.weight
    assert loaded.lm_head.weight is loaded.encoder.embed_tokens.weight is loaded.decoder.embed_tokens.weight is shared


def test_both_stacks_share_one_attention_and_a_dictionary_that_splits_them_is_refused(saved: Path) -> None:
    loaded = AutoModelForSeq2SeqLM.from_pretrained(saved, attn_implementation={"": "eager"})
    for name in ("eager", "sdpa", "flex_attention"):
        for given in (name, {"": name}):
            loaded.set_attn_implementation(given)
            assert {one.config._attn_implementation for one in (loaded, loaded.encoder, loaded.decoder)} == {name}
    split = {"encoder": "sdpa", "decoder": "eager"}
    with pytest.raises(ValueError, match=r"attn_implementation names \['decoder', 'encoder'\]; both stacks share one"):
        loaded.set_attn_implementation(split)
    assert loaded.config._attn_implementation == "flex_attention"
    with pytest.raises(ValueError, match=r"attn_implementation names \['decoder', 'encoder'\]; both stacks share one"):
        AutoModelForSeq2SeqLM.from_pretrained(saved, attn_implementation=split)


@pytest.mark.parametrize("name", ["flash_attention_2", "nonsense"])
def test_an_attention_that_is_not_supported_is_refused(saved: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"does not support Flash Attention 2|\"nonsense\"` is not supported"):
        AutoModelForSeq2SeqLM.from_pretrained(saved, attn_implementation=name)


@pytest.mark.parametrize("shards", ["1GB", "30KB"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@torch.no_grad()
def test_a_converted_model_is_read_back_as_it_was_saved(
    make_model: Any, ids: Any, tmp_path: Path, dtype: torch.dtype, shards: str
) -> None:
    model = make_model().to(dtype)
    model.save_pretrained(tmp_path, max_shard_size=shards)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) is (shards == "30KB")
    loaded, told = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path, dtype="auto", attn_implementation="eager", output_loading_info=True
    )
    assert not any(told.values()) and loaded.config.dtype == dtype
    expected = model.state_dict()
    assert loaded.state_dict().keys() == expected.keys()
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == dtype and torch.equal(tensor, expected[name]), name
    source, target = ids(2, 4), ids(2, 3)
    assert torch.equal(loaded(source, decoder_input_ids=target).logits, model(source, decoder_input_ids=target).logits)


def test_a_generation_config_is_saved_and_honoured(make_model: Any, ids: Any, tmp_path: Path) -> None:
    model, source = make_model(), ids(2, 4)
    mask = torch.ones_like(source)
    settings = {"max_new_tokens": 6, "do_sample": False, "num_beams": 2, "repetition_penalty": 1.7, "pad_token_id": 0}
    plain = model.generate(source, attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=0)
    expected = model.generate(source, attention_mask=mask, **settings)
    assert expected.tolist() != plain.tolist()
    model.generation_config.update(**settings)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager")
    assert loaded.generation_config.decoder_start_token_id == 3
    assert loaded.generate(source, attention_mask=mask).tolist() == expected.tolist()
    overruled = loaded.generate(source, attention_mask=mask, num_beams=1, repetition_penalty=1.0)
    assert overruled.tolist() == plain.tolist()


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_holds_every_tensor_once(make_model: Any, tmp_path: Path, tied: bool) -> None:
    model = make_model(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no dictionary
    left_out = TIED | ({"lm_head.weight"} if tied else set())
    assert set(stored) == set(model.state_dict()) - left_out
    assert set(model.get_expanded_tied_weights_keys()) == left_out
    assert set(model._tied_weights_keys) == TIED | {"lm_head.weight"}
    assert set(model._tied_weights_keys.values()) == {"shared.weight"}
    size = sum(tensor.nbytes for tensor in stored.values())
    assert size == sum(parameter.nbytes for parameter in model.parameters())  # which names a shared one once
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in stored.items())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("rows", [101, 90])
@torch.no_grad()
def test_a_resized_vocabulary_survives_saving_and_leaves_the_other_logits(
    make_model: Any, tmp_path: Path, tied: bool, rows: int
) -> None:
    model = make_model(tie_word_embeddings=tied)
    source, target = torch.tensor([[7, 80, 12]]), torch.tensor([[3, 9]])
    before = model(source, decoder_input_ids=target).logits
    model.resize_token_embeddings(rows)
    heights = {m.weight.shape[0] for m in (model.shared, model.encoder.embed_tokens, model.lm_head)}
    assert heights == {rows} == {model.config.vocab_size, model.encoder.config.vocab_size}
    assert (model.lm_head.weight is model.shared.weight) is tied
    after = model(source, decoder_input_ids=target).logits
    assert after.shape[-1] == rows
    kept = min(rows, 97)
    torch.testing.assert_close(after[..., :kept], before[..., :kept], rtol=1e-5, atol=1e-5)
    model.save_pretrained(tmp_path)
    loaded = Qwen3ForSeq2SeqLM.from_pretrained(tmp_path, attn_implementation="eager")
    torch.testing.assert_close(loaded(source, decoder_input_ids=target).logits, after, rtol=0, atol=0)
    last = torch.tensor([[rows - 1]])
    loaded(last, decoder_input_ids=last)
    with pytest.raises(ValueError, match=f"contains id {rows}"):
        loaded(last + 1, decoder_input_ids=last)
