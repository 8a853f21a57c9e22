"""The table of names: complete, in order, and resolved for a layer."""

import re

import numpy as np
import pytest

from qwen3_golden import ParityError, Place, last_rows, pattern_of, pb, place, selected, table, taps

AXES = {
    *("batch", "query", "key", "total", "hidden", "channel", "heads", "kv_heads"),
    *("head_dim", "pair", "intermediate", "vocab", "out", "in", "new", "step"),
}
OPS = {
    *("input", "position_ids", "inv_freq", "cos", "sin", "embedding", "copy", "rms_norm", "linear", "head_norm"),
    *("rope", "cache", "cache_once", "mask", "scores", "softmax", "context", "residual", "swiglu", "argmax"),
    *("layer_norm", "activation", "scaled_sum", "split_heads"),
}
OPS |= {
    *("loss", "loss_gradient", "linear_input_gradient", "norm_input_gradient", "swiglu_gradient", "context_gradient"),
    *("softmax_gradient", "scores_gradient", "head_gradient", "weight_gradient", "bias_gradient"),
    *("norm_weight_gradient", "embedding_gradient"),
}
OPS |= {"next_token_probs"}
BACK = ("linear_input_gradient", "norm_input_gradient")
"""Ops of the way back that read a weight."""
ROWS = {row.pattern: number for number, row in enumerate(table())}
QWEN3 = pb.ModelConfig(use_qk_norm=True, rotate_encoder_keys=True)


def alternatives(text: str) -> list[str]:
    for layer in ("{layer-1}", "{layer+1}", "{last}", "{every}"):
        text = text.replace(layer, "{layer}")
    return text.rstrip("?").split("|")


def found(name: str, layers: int = 3) -> Place:
    got = place(name, layers)
    assert got is not None
    return got


def test_patterns_are_unique() -> None:
    assert len(ROWS) == len(table())


@pytest.mark.parametrize("row", table(), ids=lambda row: row.pattern)
def test_a_row_is_computed_from_rows_above_it(row: pb.Tap) -> None:
    for text in row.inputs:
        for name in alternatives(text):
            if "{layer-1}" in text and name.endswith(".output"):
                assert name in ROWS  # the layer before: it stands below
            elif "{layer+1}" in text or (row.op == "norm_input_gradient" and ".layers.0." in name):
                assert pattern_of(name) in ROWS  # the layer behind, of the way back
            else:
                assert ROWS[name] < ROWS[row.pattern]


@pytest.mark.parametrize("row", table(), ids=lambda row: row.pattern)
def test_a_row_says_what_it_is(row: pb.Tap) -> None:
    assert row.op in OPS
    assert bool(row.axes) == (row.op != "loss")
    assert set(row.axes) <= AXES
    assert len(set(row.axes)) == len(row.axes)
    assert bool(row.inputs) == (row.op not in ("input", "inv_freq"))
    assert bool(row.hf) == (row.op != "input")
    assert bool(row.parameters) == (row.op in ("linear", "rms_norm", "head_norm", "layer_norm", "embedding", *BACK))
    assert all(re.fullmatch(r"[a-z0-9_.{}+|]+\.(weight|bias)", name) for name in row.parameters)


def test_the_layers_of_encoder_and_decoder_have_the_same_rows_but_for_caches_and_encoder_half() -> None:
    def rows(prefix: str) -> list[str]:
        return [p.removeprefix(prefix).replace("merged_attn", "self_attn") for p in ROWS if p.startswith(prefix)]

    decoder = [p for p in rows("decoder.layers.") if not re.search(r"attn\.(cache|encoder)_", p)]
    assert decoder == rows("encoder.layers.")


def test_a_pattern_is_a_name_without_its_layer() -> None:
    assert pattern_of("encoder.layers.12.mlp.act") == "encoder.layers.{layer}.mlp.act"
    assert pattern_of("logits") == "logits"
    assert pattern_of("somebody.layers.1.else") == "somebody.layers.{layer}.else"


@pytest.mark.parametrize(
    "name",
    [
        *("", "nothing", "encoder.layers.0", "encoder.layers.0.cross_attn", "encoder.layers.x.input"),
        *("encoder.layers.01.input", "encoder.layers.-1.input", "encoder.layers.٣.input"),
        *("encoder.layers.{layer}.input", "encoder.layers.{layer-1}.input", "encoder.layers.0.input "),
    ],
)
def test_a_name_that_is_not_in_the_table_has_no_place(name: str) -> None:
    assert place(name, 3) is None


def test_a_place_has_its_layer_filled_in() -> None:
    got = found("decoder.layers.2.merged_attn.q_rope")
    assert (got.layer, got.op, got.axes) == (2, "rope", ("batch", "heads", "query", "head_dim"))
    attention = "decoder.layers.2.merged_attn."
    assert got.inputs == ((attention + "q_norm", attention + "q_proj"), ("decoder.cos",), ("decoder.sin",))
    assert found(attention + "q_proj").parameters == (attention + "q_proj.weight", attention + "q_proj.bias")


def test_a_layer_reads_the_one_before_and_the_first_reads_the_embedding() -> None:
    assert found("encoder.layers.0.input").inputs == (("input.encoder_inputs_embeds", "encoder.embed_tokens"),)
    assert found("encoder.layers.2.input").inputs == (("encoder.layers.1.output",),)


@pytest.mark.parametrize("name", ["input.encoder_inputs_embeds", "encoder.embed_tokens"])
def test_the_first_layer_reads_what_the_case_is_given(name: str) -> None:
    first = found("encoder.layers.0.input")
    assert first.inputs_in({name, "encoder.embed_tokens"}, pb.ModelConfig(num_hidden_layers=3)) == (name,)


def test_the_final_norm_reads_the_last_layer() -> None:
    assert found("decoder.norm", 12).inputs == (("decoder.layers.11.output",),)


def test_the_embedding_never_stands_in_for_a_layer_that_was_not_recorded() -> None:
    names = {"encoder.embed_tokens", "encoder.layers.2.input"}
    assert found("encoder.layers.2.input").inputs_in(names) == ()


def test_optional_inputs_are_named() -> None:
    got = found("decoder.layers.0.merged_attn.mask")
    assert got.optional == {"input.encoder_attention_mask"}
    assert got.inputs_in({"input.decoder_attention_mask"}) == ("input.decoder_attention_mask",)


def test_the_first_recorded_alternative_is_the_input_of_a_network_that_is_not_known() -> None:
    rope, projection = (f"encoder.layers.0.self_attn.{name}" for name in ("q_rope", "q_proj"))
    norm = "encoder.layers.0.self_attn.q_norm"
    tables = ("encoder.cos", "encoder.sin")
    assert found(rope).inputs_in({norm, projection, *tables}) == (norm, *tables)
    assert found(rope).inputs_in({projection, *tables}) == (projection, *tables)


def test_no_alternative_stands_in_for_a_tap_that_the_network_has_but_did_not_record() -> None:
    rope, projection = (f"encoder.layers.0.self_attn.{name}" for name in ("q_rope", "q_proj"))
    tables = ("encoder.cos", "encoder.sin")
    assert found(rope).inputs_in({projection, *tables}, QWEN3) == tables
    assert found(rope).inputs_in({projection, *tables}, pb.ModelConfig(use_qk_norm=False)) == (projection, *tables)


@pytest.mark.parametrize(
    ("rotated", "normed", "expected"),
    [(True, True, "rope"), (True, False, "rope"), (False, True, "norm"), (False, False, "proj")],
)
def test_the_cached_encoder_keys_are_what_the_network_makes_last(rotated: bool, normed: bool, expected: str) -> None:
    attention = "decoder.layers.1.merged_attn."
    names = {f"{attention}encoder_k_{kind}" for kind in ("proj", "norm", "rope")}
    config = pb.ModelConfig(use_qk_norm=normed, rotate_encoder_keys=rotated)
    got = found(attention + "cache_encoder_keys").inputs_in(names, config)
    assert got == (f"{attention}encoder_k_{expected}",)


def test_globs_select_names_and_none_selects_all() -> None:
    assert selected("encoder.layers.0.mlp.act", ())
    assert selected("encoder.layers.0.mlp.act", ("logits", "*.mlp.*"))
    assert not selected("encoder.layers.0.mlp.act", ("logits", "decoder.*"))
    assert not selected("LOGITS", ("logits",))


def test_without_the_golden_folder_one_error_says_how_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(taps, "TABLES_ROOT", tmp_path)
    with pytest.raises(ParityError, match="from a clone"):
        taps.table.__wrapped__()


def test_a_case_with_rows_keeps_the_last_queries_and_all_that_attention_needs():
    values = np.arange(12).reshape(1, 4, 3)
    assert last_rows(values, found("decoder.layers.1.output"), 2).tolist() == values[:, 2:].tolist()
    assert last_rows(values, found("decoder.layers.1.output"), 0).shape == (1, 4, 3)
    for whole in ("decoder.layers.1.merged_attn.k_proj", "decoder.cos", "decoder.layers.1.merged_attn.cache_keys"):
        assert last_rows(values, found(whole), 2).shape == (1, 4, 3)


def test_a_gradient_comes_from_the_layer_behind_and_in_the_last_layer_from_the_final_norm():
    inner, last = (found(f"gradient.decoder.layers.{layer}.output") for layer in (1, 2))
    behind = "gradient.decoder.layers.2"
    assert inner.inputs[:2] == ((f"{behind}.attn_residual",), (f"{behind}.input_layernorm",))
    assert last.inputs[:1] == (("gradient.decoder.norm",),)
    assert inner.parameters == ("decoder.layers.2.input_layernorm.weight",)
    assert last.parameters == ("decoder.norm.weight",)


def test_the_encoders_output_gets_a_gradient_from_every_layer_of_the_decoder():
    got = found("gradient.encoder.norm")
    assert [some[0].split(".")[3] for some in got.inputs] == ["0", "1", "2"] * 2
    assert len(got.parameters) == len(got.inputs)
