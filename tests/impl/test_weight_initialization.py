"""From a checkpoint to a model: by directory or hub id, into a new model or one that exists, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from qwen3_encdec import Qwen3ForSeq2SeqLM, Qwen3WeightMapper, initialize_from_qwen3, verify_weight_initialization
from qwen3_encdec.weights.sentinel_rows import draw_rows, mean_and_deviation

EMBEDDING, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.layers.1.self_attn.k_norm.weight"


def _edit(directory: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(directory / "model.safetensors")
    edit(tensors)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _refusal(directory: Path, **options: Any) -> str:
    with pytest.raises(ValueError) as caught:
        initialize_from_qwen3(directory, 2, **options)
    return str(caught.value)


def _same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_hundred_sentinels_are_added_unless_asked_otherwise(save_hf: Any) -> None:
    _, directory = save_hf()
    assert initialize_from_qwen3(str(directory)).config.vocab_size == 97 + 100
    assert initialize_from_qwen3(directory, 0).config.vocab_size == 97
    assert Qwen3WeightMapper(directory).create_encoder_decoder_config().num_sentinel_tokens == 100


def test_the_mapper_reads_what_is_stored_under_hugging_faces_names(save_hf: Any) -> None:
    hf, directory = save_hf()
    mapper = Qwen3WeightMapper(str(directory))
    weights = mapper.load_qwen3_weights()
    assert weights.keys() == hf.state_dict().keys() - {HEAD}
    assert all(torch.equal(tensor, hf.state_dict()[name]) for name, tensor in weights.items())
    config = mapper.get_qwen3_config()
    assert type(config) is type(hf.config)
    assert (config.hidden_size, config.rope_parameters["rope_theta"]) == (40, 50_000.0)


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_is_filled_on_the_meta_device_and_in_place(save_hf: Any, device: str, tied: bool) -> None:
    _, directory = save_hf(tie_word_embeddings=tied)
    mapper = Qwen3WeightMapper(directory, num_sentinel_tokens=5)
    with torch.device(device):
        model = Qwen3ForSeq2SeqLM(mapper.create_encoder_decoder_config())
    held = None if device == "meta" else model.shared.weight.data_ptr()
    parameters = 1 + 2 * (3 * 11 + 1) + (not tied)
    assert mapper.map_weights(model) == (parameters, parameters)
    assert _same(model, initialize_from_qwen3(directory, 5))
    assert all(verify_weight_initialization(model, directory).values())
    assert held in (None, model.shared.weight.data_ptr())


def test_filling_in_place_casts_to_the_models_dtype(save_hf: Any) -> None:
    _, directory = save_hf()
    mapper = Qwen3WeightMapper(directory, num_sentinel_tokens=5)
    model = Qwen3ForSeq2SeqLM(mapper.create_encoder_decoder_config()).to(torch.bfloat16)
    mapper.map_weights(model)
    assert _same(model, initialize_from_qwen3(directory, 5, dtype=torch.bfloat16))


def test_a_model_of_another_config_is_not_filled(save_hf: Any) -> None:
    _, directory = save_hf()
    mapper = Qwen3WeightMapper(directory, num_sentinel_tokens=5)
    config = mapper.create_encoder_decoder_config()
    config.rms_norm_eps = 1e-3
    model = Qwen3ForSeq2SeqLM(config)
    with pytest.raises(ValueError, match=r"rms_norm_eps: 0\.001 in the model, 1e-05 in the checkpoint"):
        mapper.map_weights(model)


def test_nothing_is_written_when_a_value_does_not_fit(save_hf: Any) -> None:
    _, directory = save_hf()
    _edit(directory, lambda tensors: tensors["model.norm.weight"].__setitem__(39, float("nan")))
    mapper = Qwen3WeightMapper(directory, num_sentinel_tokens=5)
    model = Qwen3ForSeq2SeqLM(mapper.create_encoder_decoder_config())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"not finite: .*model\.norm\.weight: nan at \[39\]"):
        mapper.map_weights(model)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.float16, None], ids=str)
def test_weights_are_cast_from_every_dtype_to_every_other(save_hf: Any, make_hf: Any, source: Any, target: Any) -> None:
    hf, directory = save_hf("cast", make_hf(tie_word_embeddings=False).to(source))
    model = initialize_from_qwen3(directory, 7, dtype=target)
    wanted = hf.model.layers[2].mlp.down_proj.weight.to(target or source)
    assert torch.equal(model.encoder.layers[2].mlp.down_proj.weight, wanted)
    assert {parameter.dtype for parameter in model.parameters()} == {target or source} == {model.config.dtype}
    assert all(verify_weight_initialization(model, directory).values())


@pytest.mark.parametrize(("value", "fits"), [(65519.0, True), (-65520.0, False), (1e30, False)])
def test_wld_18_a_value_beyond_float16_is_refused_by_name(save_hf: Any, value: float, fits: bool) -> None:
    _, directory = save_hf()
    _edit(directory, lambda tensors: tensors[EMBEDDING].__setitem__((96, 3), value))
    assert initialize_from_qwen3(directory, 2).dtype == torch.float32
    if fits:
        assert initialize_from_qwen3(directory, 2, dtype=torch.float16).shared.weight[96, 3] == 65504.0
        return
    message = _refusal(directory, dtype=torch.float16)
    assert f"overflow: {directory / 'model.safetensors'}: {EMBEDDING}: {value:g} at [96, 3] is beyond" in message
    assert "ends at 65504" in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused_by_name(save_hf: Any, value: float) -> None:
    _, directory = save_hf()
    _edit(directory, lambda tensors: tensors[NORM].__setitem__(7, value))
    assert f"not finite: {directory / 'model.safetensors'}: {NORM}: {value} at [7]" in _refusal(directory)


@pytest.mark.parametrize("device", ["nothing", "cuda:77", "meta"])
def test_a_device_that_takes_no_weights_is_refused_by_name(save_hf: Any, device: str) -> None:
    _, directory = save_hf()
    assert f"device = '{device}'" in _refusal(directory, device=device)
    with pytest.raises(ValueError, match=f"device = '{device}'"):
        mapper = Qwen3WeightMapper(directory, device=device)
        mapper.map_weights(Qwen3ForSeq2SeqLM(mapper.create_encoder_decoder_config()))


def test_a_tensor_under_another_name_is_missing_extra_and_perhaps_renamed(save_hf: Any) -> None:
    _, directory = save_hf()
    _edit(directory, lambda tensors: tensors.update({"model.layers.1.self_attn.key_norm.weight": tensors.pop(NORM)}))
    message = _refusal(directory)
    assert f"missing: {directory}: {NORM}, expected (10,)" in message
    assert "model.layers.1.self_attn.key_norm.weight (10,), expected no such tensor" in message
    assert f"perhaps renamed: {NORM} is missing, and model.layers.1.self_attn.key_norm.weight is the only" in message


def test_of_two_candidates_for_a_name_none_is_suggested(save_hf: Any) -> None:
    _, directory = save_hf()
    other = "model.layers.2.self_attn.q_norm.weight"
    _edit(directory, lambda tensors: tensors.update({f"{name}_": tensors.pop(name) for name in (NORM, other)}))
    message = _refusal(directory)
    assert f"missing: {directory}: {NORM}" in message and f"missing: {directory}: {other}" in message
    assert "perhaps renamed" not in message


@pytest.mark.parametrize("dtype", [torch.float64, torch.float8_e4m3fn, torch.int8], ids=str)
def test_a_tensor_of_no_dtype_for_weights_is_refused_by_name(save_hf: Any, dtype: torch.dtype) -> None:
    _, directory = save_hf()
    _edit(directory, lambda tensors: tensors.update({NORM: tensors[NORM].to(dtype)}))
    assert f"wrong dtype: {directory / 'model.safetensors'}: {NORM}, expected F32, BF16, F16" in _refusal(directory)


def test_a_hub_id_is_fetched_once_and_without_pickles(save_hf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, directory = save_hf()
    asked: list[tuple[str, list[str]]] = []

    def fetch(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(directory)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    mapper = Qwen3WeightMapper()
    assert mapper.load_qwen3_weights().keys() and mapper.create_encoder_decoder_config().vocab_size == 197
    assert [name for name, _ in asked] == ["Qwen/Qwen3-0.6B"]
    assert "*.safetensors" in asked[0][1] and not [pattern for pattern in asked[0][1] if "bin" in pattern]


@pytest.mark.parametrize("error", [OSError("no network"), ValueError("what is this")])
def test_a_hub_id_that_cannot_be_fetched_is_one_value_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fetch(*args: Any, **kwargs: Any) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    message = _refusal(Path("Qwen/Qwen3-0.6B"))
    assert "Qwen/Qwen3-0.6B" in message and str(error) in message and "config.json" in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_an_extended_embedding_is_the_initialised_models(save_hf: Any, dtype: torch.dtype) -> None:
    _, directory = save_hf()
    mapper = Qwen3WeightMapper(directory, 7)
    stored = mapper.load_qwen3_weights()[EMBEDDING]
    expected = initialize_from_qwen3(directory, 7, dtype=dtype).shared.weight  # drawn beside the stored rows, then cast
    assert torch.equal(mapper._extend_embeddings(stored, 7).to(dtype), expected)
    assert mapper._extend_embeddings(stored.to(dtype), 7).dtype == dtype
    assert mapper._extend_embeddings(stored, 0) is stored


@pytest.mark.parametrize(
    ("matrix", "count"),
    [
        (torch.ones(3, 4), -1),
        (torch.ones(12), 1),
        (torch.ones(0, 4), 1),
        (torch.tensor([[1.0, torch.inf]]), 1),
        (torch.tensor([[1.0, torch.nan]]), 0),
    ],
)
def test_a_matrix_without_statistics_is_not_extended(matrix: torch.Tensor, count: int) -> None:
    with pytest.raises(ValueError, match="sentinel rows; expected 0 or more rows, and finite values"):
        Qwen3WeightMapper()._extend_embeddings(matrix, count)


@pytest.mark.parametrize("tied", [True, False])
def test_sentinel_rows_of_each_matrix_have_its_own_mean_and_deviation(save_hf: Any, make_hf: Any, tied: bool) -> None:
    hf = make_hf(tie_word_embeddings=tied)
    with torch.no_grad():
        hf.lm_head.weight.mul_(3).add_(0.25)
    _, directory = save_hf("skewed", hf)
    model = initialize_from_qwen3(directory, 50)
    for matrix in (model.shared.weight, model.lm_head.weight):
        old, new = matrix.detach()[:97].double(), matrix.detach()[97:].double()
        assert float(new.mean()) == pytest.approx(float(old.mean()), abs=1e-5)
        assert float(new.std()) == pytest.approx(float(old.std()), abs=1e-5)
    assert torch.equal(model.shared.weight, model.lm_head.weight) is tied


def test_emb_09_sentinel_rows_are_the_same_whatever_the_random_state_and_threads(save_hf: Any) -> None:
    _, directory = save_hf()
    first = initialize_from_qwen3(directory, 50).shared.weight
    torch.manual_seed(123)
    threads = torch.get_num_threads()
    state = torch.random.get_rng_state()
    try:
        torch.set_num_threads(2)
        second = initialize_from_qwen3(directory, 50).shared.weight
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_statistics_are_exact_sums_whatever_the_order_of_the_rows() -> None:
    matrix = torch.randn(5000, 40, generator=torch.Generator().manual_seed(1)) * 0.03 + 0.01
    mean, deviation = mean_and_deviation(matrix)
    assert (mean, deviation) == mean_and_deviation(matrix.flip(0))
    assert mean == pytest.approx(float(matrix.double().mean()), abs=1e-8)
    assert deviation == pytest.approx(float(matrix.double().std()), rel=1e-7)


def test_statistics_of_a_matrix_with_giant_channels_are_close() -> None:
    matrix = torch.randn(3000, 64, generator=torch.Generator().manual_seed(1)) * 0.03
    matrix[7, 5] = 60.0
    mean, deviation = mean_and_deviation(matrix)
    assert mean == pytest.approx(float(matrix.double().mean()), abs=1e-6)
    assert deviation == pytest.approx(float(matrix.double().std()), rel=1e-4)


def test_drawn_rows_are_spread_like_normal_ones_and_none_is_another() -> None:
    rows = draw_rows(100, 512, 0.0, 1.0)
    assert len({tuple(row.tolist()) for row in rows}) == 100
    for bound, share in ((1.0, 0.6827), (2.0, 0.9545)):
        assert float((rows.abs() < bound).double().mean()) == pytest.approx(share, abs=0.01)
    assert torch.equal(draw_rows(1, 1, 0.5, 1.0), torch.tensor([[0.5]]))
    assert draw_rows(0, 8, 0.0, 1.0).shape == (0, 8)
