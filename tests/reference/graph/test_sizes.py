"""Sizes reach a configuration under whatever name its class has for them, and families with their own rules run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from qwen3_golden import ParityError
from qwen3_reference.graph.load import load
from qwen3_reference.graph.sizes import family, small
from qwen3_reference.graph.tiny import tiny_model
from qwen3_reference.graph.turning import turning


@pytest.mark.parametrize(
    ("kind", "key", "name", "size"),
    [
        ("xlm", "emb_dim", "hidden_size", 24),
        ("xglm", "attention_heads", "num_attention_heads", 6),
        ("jetmoe", "kv_channels", "head_dim", 10),
        ("bailing_hybrid", "num_experts_per_token", "num_experts_per_tok", 3),
        ("inkling_text", "sliding_window_size", "sliding_window", 4),
    ],
)
def test_a_key_that_only_its_class_maps_has_the_size_of_the_usual_name(
    kind: str, key: str, name: str, size: int
) -> None:
    whole = family(kind)
    assert type(whole).attribute_map[name] == key and getattr(whole, key) != size
    assert getattr(small(whole, {}), key) == size


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("modernbert", "local_attention"),
        ("modernbert-decoder", "local_attention"),
        ("gpt_neo", "window_size"),
        ("llama4_text", "attention_chunk_size"),
        ("longt5", "local_radius"),
    ],
)
def test_a_window_of_any_name_is_shorter_than_the_text(kind: str, key: str) -> None:
    assert getattr(family(kind), key) > 9 > 2 * getattr(small(family(kind), {}), key)


@pytest.mark.parametrize(
    "kind", ["mimo_v2_flash", "zamba2", "esm", "mobilebert", "neomme", "hrm_text", "gemma3n_text", "squeezebert"]
)
def test_a_family_with_rules_of_its_own_runs(kind: str) -> None:
    assert sum(parameter.numel() for parameter in tiny_model(kind).parameters()) < 1_000_000


@pytest.mark.parametrize("kind", ["paddleocr_vl", "ernie4_5_vl_moe", "xmod", "zamba", "musicgen_decoder"])
def test_a_family_that_a_rule_of_another_serves_runs(kind: str) -> None:
    assert sum(parameter.numel() for parameter in tiny_model(kind).parameters()) < 1_000_000


@pytest.mark.parametrize("kind", ["dots1", "deepseek_ocr2", "diffusion_gemma", "lfm2_moe"])
def test_what_a_family_leaves_to_published_configurations_is_filled_in(kind: str) -> None:
    model = tiny_model(kind)
    assert sum(parameter.numel() for parameter in model.parameters()) < 1_000_000
    assert any(name.partition("experts")[1] for name, _ in model.named_parameters())


def test_a_family_that_counts_its_layers_of_attention_by_a_period_has_one() -> None:
    config = tiny_model("jamba").config
    assert config.num_hidden_layers == 2 and sorted(config.layers_block_type) == ["attention", "mamba"]


PUBLISHED: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 20,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 5e4, "mrope_section": [24, 20, 20]},
            "full_attention": None,
        },
    },
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_family_without_defaults_that_run_runs_by_a_published_configuration(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ParityError) as refused:
        tiny_model(kind)
    assert "give a published model's config.json, not the name" in refused.value.next_step
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, **PUBLISHED[kind]}))
    assert sum(parameter.numel() for parameter in tiny_model(path).parameters()) < 1_000_000


def test_an_assistant_without_a_configuration_of_its_own_is_refused_with_what_to_do() -> None:
    with pytest.raises(ParityError, match="no configuration of gemma4_assistant") as refused:
        family("gemma4_assistant")
    assert refused.value.next_step == "give a published model's config.json, not the name"


@pytest.mark.parametrize(
    ("kind", "key"), [("glm5_next_text", "qk_rope_head_dim"), ("gemma4_text", "hidden_size_per_layer_input")]
)
def test_a_width_of_nothing_stays_nothing(kind: str, key: str) -> None:
    whole = family(kind)
    setattr(whole, key, 0)
    assert getattr(small(whole, {"num_key_value_heads": 6}), key) == 0


def test_a_model_whose_heads_do_not_turn_is_read_again(tmp_path: Path) -> None:
    tiny_model("glm5_next").save_pretrained(tmp_path)
    assert load(tmp_path).config.head_dim == 0


def test_sections_stand_with_each_kind_of_layer_that_turns_by_itself() -> None:
    said = {"rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": None}}
    sections = turning(said, 12, by_sections=True)["rope_parameters"]
    assert sections == {
        "full_attention": {"rope_type": "default", "mrope_section": [2, 2, 2]},
        "sliding_attention": None,
    }


@pytest.mark.parametrize("kind", ["big_bird", "bigbird_pegasus"])
def test_attention_is_what_a_short_text_makes_it(kind: str) -> None:
    assert family(kind).attention_type == "block_sparse" and small(family(kind), {}).attention_type == "original_full"
    assert small(family("funnel"), {}).attention_type == "relative_shift"


def test_sizes_of_each_layer_are_small_and_differ_where_they_did() -> None:
    whole = family("gemma3n_text")
    assert small(whole, {}).intermediate_size == [40] * 4
    whole.intermediate_size[0] *= 2
    assert small(whole, {}).intermediate_size == [56, 40, 40, 40]


def test_sizes_of_each_kind_of_expert_are_small_and_differ() -> None:
    assert family("ernie4_5_vl_moe").moe_intermediate_size == [1536, 512]
    assert small(family("ernie4_5_vl_moe"), {}).moe_intermediate_size == [22, 16]


def test_experts_that_a_family_chooses_by_groups_have_groups_of_which_some_are_left_out() -> None:
    grouped, whole = small(family("deepseek_v3"), {}), small(family("glm4_moe"), {})
    assert (grouped.n_group, grouped.topk_group, grouped.n_routed_experts) == (4, 2, 12)
    assert (whole.n_group, whole.topk_group) == (1, 1)


def test_a_family_that_says_no_number_of_chosen_experts_chooses_some() -> None:
    assert tiny_model("deepseek_v2").config.num_experts_per_tok == 3


def test_a_config_that_transformers_wrote_is_read_with_its_infinities(tmp_path: Path) -> None:
    whole, path = family("mamba2"), tmp_path / "config.json"
    whole.save_pretrained(tmp_path)
    assert "__float__" in path.read_text() and list(family(path).time_step_limit) == [0, math.inf]
    path.write_text(path.read_text().replace('"Infinity"', '"many"'))
    with pytest.raises(ParityError, match="no configuration of mamba2"):
        family(path)


@pytest.mark.parametrize(("kind", "key"), [("mamba2", "n_groups"), ("falcon_h1", "mamba_n_groups")])
def test_a_state_has_several_groups_where_the_family_has(kind: str, key: str) -> None:
    for groups, small_groups in ((1, 1), (8, 2)):
        whole = family(kind)
        setattr(whole, key, groups)
        assert getattr(small(whole, {"head_dim": 8}), key) == small_groups


def test_a_family_whose_state_has_several_groups_runs_with_them() -> None:
    assert tiny_model("mamba2").config.n_groups == 2


def test_a_family_that_has_no_layer_of_attention_by_itself_has_one() -> None:
    config = tiny_model("granitemoehybrid").config
    assert config.num_hidden_layers == 2 and sorted(config.layer_types) == ["full_attention", "linear_attention"]


@pytest.mark.parametrize(
    ("said", "next_step"),
    [
        ("xlm_roberta", "is it xlm-roberta? else"),
        ("qwen3moe", "is it qwen3_moe? else"),
        ("none_such", "check the name;"),
    ],
)
def test_a_name_that_is_nearly_a_familys_is_told_which(said: str, next_step: str) -> None:
    with pytest.raises(ParityError) as refused:
        family(said)
    assert refused.value.next_step == f"{next_step} a newer transformers may have it"


@pytest.mark.parametrize("kind", ["kimi_linear", "bailing_hybrid"])
def test_a_states_heads_are_small_whatever_their_keys_are_called(kind: str) -> None:
    """A chunk's products are as wide for each pair of its positions: at 128 a golden had taken six minutes."""
    config = tiny_model(kind).config
    widths = {key: width for key, width in config.to_dict().items() if key.endswith("_dim") and isinstance(width, int)}
    assert widths["linear_head_dim"] < 16 and max(widths.values()) < 64
    assert "full_attention" in config.layer_types and config.num_experts_per_tok == 3


@pytest.mark.parametrize("name", ["nllb-moe", "switch_transformers"])
def test_the_last_layer_of_each_side_has_experts_where_every_fourth_had(name: str) -> None:
    config = small(family(name), {})
    assert config.encoder_sparse_step == config.decoder_sparse_step == 2
