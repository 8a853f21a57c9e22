"""The table of published models: the exact numbers, what Hugging Face makes of them, and twins of the same kind."""

import json
import os
from pathlib import Path

import pytest
import torch
from transformers.models.qwen2 import Qwen2ForCausalLM
from transformers.models.qwen3 import Qwen3ForCausalLM

from qwen3_golden import ParityError, pb
from qwen3_golden.models import model, models
from qwen3_reference.cases.networks import case
from qwen3_reference.cases.twins import TWIN_CASES, TWINS
from qwen3_reference.checkpoints.configs import hf_config, model_config
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.weights import expected_tensors

CLASSES = {"qwen3": Qwen3ForCausalLM, "qwen2": Qwen2ForCausalLM}
DATA = os.environ.get("QWEN3_PARITY_DATA")
NAMES = [row.name for row in models()]
WITH_TWIN = [row.name for row in models() if row.twin]
TWIN_NAMES = list(dict.fromkeys(f"models/{row.twin}" for row in models() if row.twin))
PUBLISHED = ("0.6B", "0.6B-Base", "1.7B", "4B", "8B", "14B", "32B")


def write(directory: Path, config: pb.ModelConfig) -> Path:
    (directory / "config.json").write_text(json.dumps(config_json(config, "bfloat16")), encoding="utf-8")
    return directory


def structure(config: pb.ModelConfig) -> dict[str, object]:
    """What a network of another width has in common with this one."""
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    scaling = config.rope_scaling
    return {
        "model_type": config.model_type,
        "queries to a KV head": config.num_attention_heads / config.num_key_value_heads,
        "q against hidden": (queries > config.hidden_size) - (queries < config.hidden_size),
        "k against hidden": (keys > config.hidden_size) - (keys < config.hidden_size),
        "eps": config.rms_norm_eps,
        "theta": config.rope_theta,
        "activation": config.hidden_act,
        "biases": (config.attention_bias, config.attention_out_bias),
        "QK-norm": config.use_qk_norm,
        "kinds of layers": set(config.layer_types),
        "window": config.sliding_window,
        "tied": config.tie_word_embeddings,
        "scaling": (scaling.rope_type, scaling.factor, scaling.attention_factor, scaling.beta_fast, scaling.beta_slow),
        "truncate": scaling.truncate,
        "stretched to": config.max_position_embeddings / (scaling.original_max_position_embeddings or 1)
        if config.HasField("rope_scaling")
        else config.max_position_embeddings,
    }


def test_names_are_unique_and_every_size_is_there() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {f"Qwen3-{size}" for size in PUBLISHED} <= set(NAMES)
    assert {f"Qwen2.5-{size}B" for size in ("0.5", "1.5", "3", "7", "14", "32", "72")} <= set(NAMES)
    assert {row.dtype for row in models()} == {pb.BF16}


@pytest.mark.parametrize("name", NAMES)
def test_every_field_that_a_network_needs_is_set(name: str) -> None:
    config = model(name).config
    unset = {field.name for field in config.DESCRIPTOR.fields if not getattr(config, field.name)}
    assert unset <= {"attention_bias", "attention_out_bias", "use_qk_norm", "sliding_window", "tie_word_embeddings"}
    assert config.HasField("rope_scaling") == name.endswith("YaRN")


def test_an_unknown_name_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(ParityError, match="no published model") as caught:
        model("Qwen3-9B")
    assert all(name in caught.value.expected for name in NAMES) and caught.value.got == "Qwen3-9B"


def test_a_model_that_was_changed_is_not_the_next_ones_model() -> None:
    model("Qwen3-8B").config.hidden_size = 1
    assert model("Qwen3-8B").config.hidden_size == 4096


@pytest.mark.skipif(DATA is None, reason="QWEN3_PARITY_DATA is not set")
@pytest.mark.parametrize("size", PUBLISHED)
def test_the_numbers_are_those_of_the_published_config(size: str, tmp_path: Path) -> None:
    published = Path(str(DATA)) / "qwen3-configs" / f"Qwen3-{size}.config.json"
    (tmp_path / "config.json").write_text(published.read_text(encoding="utf-8"), encoding="utf-8")
    assert model_config(tmp_path) == model(f"Qwen3-{size}").config


@pytest.mark.skipif(DATA is None, reason="QWEN3_PARITY_DATA is not set")
@pytest.mark.parametrize("size", PUBLISHED)
def test_a_config_that_is_written_says_what_the_published_one_says(size: str) -> None:
    path = Path(str(DATA)) / "qwen3-configs" / f"Qwen3-{size}.config.json"
    published = json.loads(path.read_text(encoding="utf-8"))
    ours = config_json(model(f"Qwen3-{size}").config, "bfloat16")
    assert published.keys() - ours.keys() == {"max_window_layers", "transformers_version"}
    assert ours.keys() <= published.keys()
    different = {name for name in ours if ours[name] != published[name]}
    assert different == ({"eos_token_id"} if size.endswith("Base") else set())  # the table has no ids


@pytest.mark.parametrize("name", NAMES)
def test_a_config_that_is_written_is_read_as_the_same_numbers(name: str, tmp_path: Path) -> None:
    config = model(name).config
    assert model_config(write(tmp_path, config)) == config


@pytest.mark.parametrize("name", ["yarn-stated", "yarn-mscale", "qwen3-8b-yarn"])
def test_a_scaling_that_is_written_is_read_as_the_same_numbers(name: str, tmp_path: Path, checkpoints: Path) -> None:
    config = model_config(checkpoints / name)
    assert model_config(write(tmp_path, config)) == config


def test_of_a_scaling_only_what_a_reader_cannot_find_by_himself_is_written(checkpoints: Path) -> None:
    twin = json.loads((checkpoints / "qwen3-8b-yarn" / "config.json").read_text(encoding="utf-8"))
    stated = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    assert (
        twin["rope_scaling"] == stated == config_json(model_config(checkpoints / "qwen3-8b-yarn"), "x")["rope_scaling"]
    )


def test_a_window_and_biases_are_written_and_read_as_well(tmp_path: Path, checkpoints: Path) -> None:
    for name in ("window-decoder", "biased"):
        config = model_config(checkpoints / name)
        assert model_config(write(tmp_path, config)) == config


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("Qwen3-8B", {"model_type": "llama"}),
        ("Qwen3-8B", {"use_qk_norm": False}),
        ("Qwen3-8B", {"attention_bias": True}),
        ("Qwen2.5-7B", {"attention_bias": False}),
        ("Qwen2.5-7B", {"attention_out_bias": True}),
        ("Qwen2.5-7B", {"use_qk_norm": True}),
        ("Qwen2.5-7B", {"head_dim": 64}),
    ],
)
def test_numbers_that_no_config_can_state_are_refused(name: str, changed: dict[str, object]) -> None:
    config = model(name).config
    for field, value in changed.items():
        setattr(config, field, value)
    with pytest.raises(ParityError, match="cannot state these numbers"):
        config_json(config, "bfloat16")


@pytest.mark.parametrize("name", NAMES)
def test_hugging_faces_model_has_these_tensors_and_as_many_parameters(name: str, tmp_path: Path) -> None:
    row = model(name)
    with torch.device("meta"):
        hf = CLASSES[row.config.model_type](hf_config(write(tmp_path, row.config)))
    shapes = expected_tensors(row.config)
    found = {key: tuple(value.shape) for key, value in hf.named_parameters()}  # a tied head once
    head = {} if row.config.tie_word_embeddings else {"lm_head.weight": shapes["model.embed_tokens.weight"]}
    assert found == {**shapes, **head}
    assert sum(value.numel() for value in hf.parameters()) == row.parameters


@pytest.mark.parametrize("name", WITH_TWIN)
def test_a_twin_has_the_structure_of_its_model(name: str, checkpoints: Path) -> None:
    row = model(name)
    twin, real = model_config(checkpoints / row.twin), row.config
    if row.name.endswith("-Base"):  # the same twin: its positions are those of the one after training
        real.max_position_embeddings = model(name.removesuffix("-Base")).config.max_position_embeddings
    assert structure(twin) == structure(real)
    assert twin.num_hidden_layers == real.num_hidden_layers // 8
    assert twin.num_key_value_heads == 2 and twin.hidden_size < 100


def test_a_twin_of_another_structure_would_be_noticed() -> None:
    plain = structure(model("Qwen3-8B").config)
    for name in set(WITH_TWIN) - {"Qwen3-8B"}:
        assert structure(model(name).config) != plain, name


def test_every_family_size_and_scaling_has_a_twin() -> None:
    assert [f"models/{twin.name}" for twin in TWINS] == [definition.name for definition in TWIN_CASES] == TWIN_NAMES
    assert [row.name for row in models() if not row.twin] == [f"Qwen2.5-{s}B" for s in ("1.5", "3", "14", "32", "72")]


@pytest.mark.parametrize("name", TWIN_NAMES)
def test_a_twins_case_has_it_in_both_roles_with_padding_and_decode_steps(name: str) -> None:
    definition = case(name)
    assert definition.mode == pb.ENCODER_DECODER and definition.encoder == definition.decoder == name[7:]
    assert any("0" in row for row in definition.encoder_rows) and any("0" in row for row in definition.decoder_rows)
    assert len(definition.steps) >= 3 and definition.dtype == "float32"


def test_yarn_keeps_blends_and_divides_pairs_of_its_twin_and_is_met_on_both_sides_of_its_length(
    checkpoints: Path,
) -> None:
    config = model_config(checkpoints / "qwen3-8b-yarn")
    pairs = torch.arange(0, config.head_dim, 2).double() / config.head_dim
    hf = hf_config(checkpoints / "qwen3-8b-yarn")
    with torch.device("cpu"):
        share = CLASSES["qwen3"](hf).model.rotary_emb.inv_freq.double() * config.rope_theta**pairs
    divided = 1 / config.rope_scaling.factor
    assert share[0] == pytest.approx(1) and share[-1] == pytest.approx(divided)
    assert any(divided * 1.1 < one < 0.9 for one in share.tolist())
    first = case("models/qwen3-8b-yarn").first_position
    assert first < config.rope_scaling.original_max_position_embeddings < first + 3


def test_the_larger_twins_are_stored_in_two_files_and_all_in_bfloat16(checkpoints: Path) -> None:
    files = {row.twin: len(list((checkpoints / row.twin).glob("*.safetensors"))) for row in models() if row.twin}
    assert {twin for twin, count in files.items() if count == 2} == {"qwen3-32b", "qwen2.5-7b"}
    stated = [json.loads((checkpoints / twin / "config.json").read_text(encoding="utf-8")) for twin in files]
    assert {config["torch_dtype"] for config in stated} == {"bfloat16"}
