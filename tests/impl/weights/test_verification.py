"""`weight_faults`: each seeded fault is found at its parameter, under its check, by its mistake, and no other is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from qwen3_encdec import Qwen3ForSeq2SeqLM, initialize_from_qwen3, verify_weight_initialization
from qwen3_encdec.weights import comparison as weight_comparison
from qwen3_encdec.weights import sentinel_rows
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_encdec.weights.verification import CHECKS, WeightFault, weight_faults

SENTINELS = 8
KEYS = {
    "encoder_attention_match",
    "decoder_attention_match",
    "mlp_match",
    "embedding_extended",
    "embeddings_tied",
    "original_embeddings_preserved",
}
ENC, DEC = "encoder.layers.1.self_attn", "decoder.layers.2.merged_attn"
ROWS = f"shared.weight[{97}:]"
Fault = tuple[str, str, str]
"""The parameter, the check, and what is said of it."""


def _write(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    def spoil(model: Any) -> None:
        parameter = model.get_parameter(name)
        parameter.data.copy_(change(parameter.data.clone()))

    return spoil


def _add(at: tuple[int, ...], value: float = 1.0) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor[at] += value
        return tensor

    return change


def _copy(name: str, origin: str) -> Callable[[Any], None]:
    return lambda model: model.get_parameter(name).data.copy_(model.get_parameter(origin).data)


def _set(path: str, value: Any) -> Callable[[Any], None]:
    def spoil(model: Any) -> None:
        module, _, attribute = path.rpartition(".")
        setattr(model.get_submodule(module), attribute, value)

    return spoil


def _replace(path: str, make: Callable[[Any], nn.Parameter]) -> Callable[[Any], None]:
    return lambda model: _set(path, make(model))(model)


def _fresh(model: Any) -> nn.Parameter:
    return nn.Parameter(torch.randn(model.shared.weight.shape, generator=torch.Generator().manual_seed(9)))


def _swapped_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(tensor.numpy().byteswap())


WEIGHTS: dict[str, tuple[Callable[[Any], None], Fault]] = {
    "last k_norm": (_write(f"{DEC}.k_norm.weight", _add((7,))),
        (f"{DEC}.k_norm.weight", "decoder_attention_match", "1 of 10 elements differ, first at [7]: expected ")),
    "an element of the encoder's k_proj": (_write(f"{ENC}.k_proj.weight", _add((19, 39), 1e-6)),
        (f"{ENC}.k_proj.weight", "encoder_attention_match", "1 of 800 elements differ, first at [19, 39]")),
    "the sign of a zero": (_write("encoder.norm.weight", lambda t: torch.where(torch.arange(40) == 4, -t, t)),
        ("encoder.norm.weight", "norms_match", "1 of 40 elements differ, first at [4]")),
    "never loaded": (_write("decoder.norm.weight", torch.ones_like),
        ("decoder.norm.weight", "norms_match", "never loaded: all ones")),
    "zeros": (_write(f"{ENC}.o_proj.weight", torch.zeros_like),
        (f"{ENC}.o_proj.weight", "encoder_attention_match", "never loaded: all zeros")),
    "another norm": (_copy("decoder.norm.weight", "decoder.layers.2.post_attention_layernorm.weight"),
        ("decoder.norm.weight", "norms_match", "holds the values of model.layers.2.post_attention_layernorm.weight")),
    "another layer": (_copy("encoder.layers.0.mlp.up_proj.weight", "encoder.layers.1.mlp.up_proj.weight"),
        ("encoder.layers.0.mlp.up_proj.weight", "mlp_match", "holds the values of model.layers.1.mlp.up_proj.weight")),
    "gate for up": (_copy("decoder.layers.0.mlp.up_proj.weight", "decoder.layers.0.mlp.gate_proj.weight"),
        ("decoder.layers.0.mlp.up_proj.weight", "mlp_match",
        "holds the values of model.layers.0.mlp.gate_proj.weight")),
    "k read as [in, out]": (_write(f"{DEC}.k_proj.weight", lambda t: t.reshape(40, 20).T),
        (f"{DEC}.k_proj.weight", "decoder_attention_match", "is its source read as [in, out]")),
    "v written transposed": (_write(f"{DEC}.v_proj.weight", lambda t: t.T.reshape(20, 40)),
        (f"{DEC}.v_proj.weight", "decoder_attention_match", "is the transpose of its source read as [out, in]")),
    "a shape the wrong way round": (_replace(f"{DEC}.v_proj.weight",
        lambda m: nn.Parameter(m.decoder.layers[2].merged_attn.v_proj.weight.T)),
        (f"{DEC}.v_proj.weight", "decoder_attention_match", "is the transpose of its source: has the shape [40, 20]")),
    "a square one transposed": (_write(f"{ENC}.q_proj.weight", lambda t: t.T),
        (f"{ENC}.q_proj.weight", "encoder_attention_match", "is the transpose of its source")),
    "rounded to bfloat16": (_write(f"{ENC}.q_norm.weight", lambda t: t.bfloat16().float()),
        (f"{ENC}.q_norm.weight", "encoder_attention_match", "rounded to bfloat16 on the way")),
    "rounded to float16": (_write("decoder.layers.0.mlp.gate_proj.weight", lambda t: t.half().float()),
        ("decoder.layers.0.mlp.gate_proj.weight", "mlp_match", "rounded to float16 on the way")),
    "cut to bfloat16": (_write("decoder.layers.0.mlp.gate_proj.weight",
        lambda t: (t.view(torch.int32) & -65536).view(torch.float32)),
        ("decoder.layers.0.mlp.gate_proj.weight", "mlp_match", "cut to bfloat16 instead of rounded")),
    "byte order": (_write("encoder.layers.2.input_layernorm.weight", _swapped_bytes),
        ("encoder.layers.2.input_layernorm.weight", "norms_match", "exchanged byte order")),
    "norm minus one": (_write("encoder.layers.2.input_layernorm.weight", lambda t: t - 1),
        ("encoder.layers.2.input_layernorm.weight", "norms_match", "is its source minus 1")),
    "interleaved rows": (_write(f"{ENC}.q_proj.weight",
        lambda t: t.reshape(6, 2, 5, 60).transpose(1, 2).reshape(60, 60)),
        (f"{ENC}.q_proj.weight", "encoder_attention_match", "holds the rows of its source in another order")),
    "columns of other heads": (_write(f"{DEC}.o_proj.weight", lambda t: t.roll(10, 1)),
        (f"{DEC}.o_proj.weight", "decoder_attention_match", "holds the columns of its source in another order")),
    "random": (_write(f"{DEC}.q_proj.weight",
        lambda t: torch.randn(t.shape, generator=torch.Generator().manual_seed(3))),
        (f"{DEC}.q_proj.weight", "decoder_attention_match",
        "holds values of no tensor of the checkpoint: 3600 of 3600")),
    "NaN": (_write(f"{DEC}.q_norm.weight", _add((3,), float("nan"))),
        (f"{DEC}.q_norm.weight", "decoder_attention_match", "1 of 10 elements differ, first at [3]")),
    "an element of the embedding": (_write("shared.weight", _add((96, 0))),
        ("shared.weight", "original_embeddings_preserved", "1 of 5820 elements differ, first at [96, 0]")),
}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, make_hf: Any) -> Path:
    """A tied checkpoint with a square q_proj."""
    directory = tmp_path_factory.mktemp("square")
    make_hf(hidden_size=60).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory, make_hf: Any) -> dict[bool, Path]:
    """Checkpoints as the other tests have them, by whether they are tied."""
    directories = {tied: tmp_path_factory.mktemp(f"narrow-{tied}") for tied in (True, False)}
    for tied, directory in directories.items():
        make_hf(tie_word_embeddings=tied, attention_bias=not tied).save_pretrained(directory)
    return directories


def _faults(model: Any, directory: Path) -> list[Fault]:
    return [(fault.name, fault.check, fault.says) for fault in weight_faults(model, directory)]


def _assert_fault(model: Any, directory: Path, expected: Fault) -> None:
    faults = _faults(model, directory)
    assert [fault[:2] for fault in faults] == [expected[:2]], faults
    assert faults[0][2].startswith(expected[2]), faults


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_an_initialised_model_has_no_fault(narrow: Any, tied: bool, dtype: torch.dtype) -> None:
    model = initialize_from_qwen3(narrow[tied], SENTINELS, dtype=dtype)
    assert weight_faults(model, narrow[tied]) == []
    checks = verify_weight_initialization(model, str(narrow[tied]))
    assert tuple(checks) == CHECKS and checks.keys() > KEYS and all(checks.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_model_read_back_from_disk_has_no_fault(narrow: Any, tmp_path: Path, dtype: torch.dtype) -> None:
    initialize_from_qwen3(narrow[False], SENTINELS, dtype=dtype).save_pretrained(tmp_path, max_shard_size="40KB")
    assert weight_faults(Qwen3ForSeq2SeqLM.from_pretrained(tmp_path, dtype="auto"), narrow[False]) == []


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("mistake", WEIGHTS)
def test_a_wrong_weight_is_the_one_fault_and_its_mistake_is_named(source: Path, narrow: Any, mistake: str) -> None:
    spoil, expected = WEIGHTS[mistake]
    directory = source if expected[0].endswith("q_proj.weight") or "5820" in expected[2] else narrow[True]
    model = initialize_from_qwen3(directory, SENTINELS)
    spoil(model)
    _assert_fault(model, directory, expected)
    checks = verify_weight_initialization(model, directory)
    assert [check for check, passed in checks.items() if not passed] == [expected[1]]


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("first", range(6))
def test_every_single_parameter_is_compared(narrow: Any, first: int) -> None:
    """Each sixth, from the first on."""
    model = initialize_from_qwen3(narrow[False], SENTINELS)
    for name, parameter in list(model.named_parameters())[first::6]:
        before = parameter.data.clone()
        parameter.data.view(-1)[-1] += 1
        faults = [fault[0] for fault in _faults(model, narrow[False])]
        parameter.data.copy_(before)
        rows = f"{name}[97:]" if name in ("shared.weight", "lm_head.weight") else name
        assert set(faults) == {rows}, name
    assert _faults(model, narrow[False]) == []


TIES: dict[str, tuple[bool, Callable[[Any], None], list[Fault]]] = {
    "an embedding of its own": (True,
        _replace("encoder.embed_tokens.weight", lambda m: nn.Parameter(m.shared.weight.detach().clone())),
        [("encoder.embed_tokens.weight", "embeddings_tied", "is not tied to shared.weight: a copy with the same")]),
    "an embedding left at its start": (True, _replace("decoder.embed_tokens.weight", _fresh),
        [("decoder.embed_tokens.weight", "embeddings_tied", "is not tied to shared.weight: a copy with other"),
        ("decoder.embed_tokens.weight[97:]", "sentinel_rows_match_statistics", "the standard deviation is"),
        ("decoder.embed_tokens.weight[97:]", "sentinel_rows_seeded", "holds values of no tensor"),
        ("decoder.embed_tokens.weight", "original_embeddings_preserved", "holds values of no tensor")]),
    "two parameters in one memory": (True, _replace("lm_head.weight", lambda m: nn.Parameter(m.shared.weight.detach())),
        [("lm_head.weight", "embeddings_tied", "is a parameter of its own in the memory of shared.weight")]),
    "a head of the untied kind is the embedding": (False, _replace("lm_head.weight", lambda m: m.shared.weight),
        [("lm_head.weight", "embeddings_tied", "shares the memory of shared.weight; the checkpoint has a head"),
        ("lm_head.weight[97:]", "sentinel_rows_match_statistics", "the standard deviation is"),
        ("lm_head.weight[97:]", "sentinel_rows_seeded", "holds the values of rows drawn for model.embed_tokens"),
        ("lm_head.weight", "head_match", "holds the values of model.embed_tokens.weight")]),
    "one memory in both stacks": (True, _replace("encoder.norm.weight", lambda m: m.decoder.norm.weight),
        [("encoder.norm.weight", "stacks_share_no_storage", "shares its memory with decoder.norm.weight")]),
    "views of one memory": (True,
        _replace(f"{ENC}.q_proj.weight", lambda m: nn.Parameter(m.decoder.layers[1].merged_attn.q_proj.weight.data)),
        [(f"{ENC}.q_proj.weight", "stacks_share_no_storage",
        "shares its memory with decoder.layers.1.merged_attn.q_p")]),
    "no memory": (True, _replace(f"{ENC}.q_proj.weight", lambda m: nn.Parameter(torch.empty(60, 40, device="meta"))),
        [(f"{ENC}.q_proj.weight", "encoder_attention_match", "on the meta device: never filled")]),
    "a parameter too many": (True, _replace("encoder.layers.0.mlp.scale", lambda m: nn.Parameter(torch.ones(1))),
        [("encoder.layers.0.mlp.scale", "every_parameter_checked", "no tensor of the checkpoint belongs here")]),
    "a buffer too many": (True, lambda model: model.decoder.register_buffer("offset", torch.ones(1)),
        [("decoder.offset", "every_parameter_checked", "no tensor of the checkpoint belongs here")]),
    "a bias left out": (False, _set(f"{ENC}.o_proj.bias", None),
        [(f"{ENC}.o_proj.bias", "encoder_attention_match", "not in the model")]),
    "another dtype": (True, lambda model: model.decoder.norm.bfloat16() and None,
        [("decoder.norm.weight", "config_matches", "is torch.bfloat16 in a model of torch.float32")]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", TIES)
def test_a_wrong_tie_a_shared_memory_and_a_parameter_nobody_knows_are_found(narrow: Any, mistake: str) -> None:
    tied, spoil, expected = TIES[mistake]
    model = initialize_from_qwen3(narrow[tied], SENTINELS)
    spoil(model)
    faults = _faults(model, narrow[tied])
    if mistake == "one memory in both stacks":  # whose values can be only one stack's, and here are both's
        faults = [fault for fault in faults if "stacks" in fault[1]]
    assert {fault[:2] for fault in faults} == {fault[:2] for fault in expected}, faults
    for name, check, says in expected:
        assert any(fault[:2] == (name, check) and fault[2].startswith(says) for fault in faults), faults


def test_fact_12_a_model_on_the_meta_device_passes_no_check_of_values(narrow: Any) -> None:
    model = initialize_from_qwen3(narrow[True], SENTINELS).to("meta")
    checks = verify_weight_initialization(model, narrow[True])
    values = {name for name in checks if name.endswith("_match")} - {"head_match"}
    assert not any(checks[name] for name in (*values, "embeddings_tied", "original_embeddings_preserved"))
    assert not checks["config_matches"]  # inv_freq


def _sentinels(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    def spoil(model: Any) -> None:
        model.shared.weight.data[97:] = change(model.shared.weight.data[97:].clone())

    return spoil


def _other_seed(rows: torch.Tensor) -> torch.Tensor:
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(5))
    return (noise - noise.mean()) / noise.std() * rows.std() + rows.mean()


ROWS_OF_SENTINELS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], set[str], str]] = {
    "zeros": (torch.zeros_like, {"sentinel_rows_match_statistics", "sentinel_rows_seeded"}, "never loaded: all zeros"),
    "another draw": (_other_seed, {"sentinel_rows_seeded"}, "holds values of no tensor"),
    "one element": (_add((3, 2)), {"sentinel_rows_match_statistics", "sentinel_rows_seeded"}, "1 of 320 elements"),
    "twice as wide": (lambda rows: rows * 2, {"sentinel_rows_match_statistics", "sentinel_rows_seeded"}, "holds"),
    "NaN": (_add((0, 0), float("nan")), {"sentinel_rows_match_statistics", "sentinel_rows_seeded"}, "1 of 320"),
    "the order of the rows": (lambda rows: rows.flip(0), {"sentinel_rows_seeded"}, "holds the rows of its source"),
}


@pytest.mark.parametrize("mistake", ROWS_OF_SENTINELS)
def test_sentinel_rows_that_are_not_the_seeds_are_found(narrow: Any, mistake: str) -> None:
    change, checks, says = ROWS_OF_SENTINELS[mistake]
    model = initialize_from_qwen3(narrow[True], SENTINELS)
    _sentinels(change)(model)
    faults = _faults(model, narrow[True])
    assert {fault[:2] for fault in faults} == {(ROWS, check) for check in checks}
    assert any(fault[2].startswith(says) for fault in faults if fault[1] == "sentinel_rows_seeded"), faults


def test_a_looser_tolerance_is_for_the_statistics_alone(narrow: Any) -> None:
    model = initialize_from_qwen3(narrow[True], SENTINELS)
    _sentinels(lambda rows: rows * 1.001)(model)
    checks = [verify_weight_initialization(model, narrow[True], tolerance) for tolerance in (1e-5, 1.0)]
    assert [check["sentinel_rows_match_statistics"] for check in checks] == [False, True]
    assert not any(check["sentinel_rows_seeded"] for check in checks)


def test_emb_09_rows_from_another_seed_at_loading_are_found(narrow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sentinel_rows, "_SEED", 1)
        model = initialize_from_qwen3(narrow[True], SENTINELS)
    assert [fault[:2] for fault in _faults(model, narrow[True])] == [(ROWS, "sentinel_rows_seeded")]


@pytest.mark.parametrize("rows", [97, 97 + SENTINELS - 1, 97 + SENTINELS + 1, 96])
def test_an_embedding_of_another_height_is_found(narrow: Any, rows: int) -> None:
    model = initialize_from_qwen3(narrow[True], SENTINELS)
    matrix = nn.Parameter(model.shared.weight.detach().repeat(2, 1)[:rows])
    for module in (model.shared, model.encoder.embed_tokens, model.decoder.embed_tokens, model.lm_head):
        module.weight = matrix
    faults = _faults(model, narrow[True])
    assert ("shared.weight", "embedding_extended") in [fault[:2] for fault in faults]
    assert all("has the shape" in says for _, _, says in faults)
    assert {check for _, check, _ in faults} - {"embedding_extended"} == (
        {"original_embeddings_preserved"} if rows < 97 else set()
    )


def _frequencies(model: Any) -> None:
    model.decoder.rotary_emb.inv_freq = model.decoder.rotary_emb.inv_freq.bfloat16().float()


SETTINGS: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "eps of one norm": (_set(f"{DEC}.k_norm.variance_epsilon", 1e-6), f"{DEC}.k_norm.variance_epsilon",
        "is 1e-06, the"),
    "scaling of one layer": (_set(f"{ENC}.scaling", 0.1), f"{ENC}.scaling",
        "is 0.1, the checkpoint's config gives 0.3"),
    "window of one layer": (_set(f"{ENC}.sliding_window", 4), f"{ENC}.sliding_window", "is 4, the checkpoint's"),
    "type of one layer": (_set(f"{DEC}.layer_type", "sliding_attention"), f"{DEC}.layer_type",
        "is 'sliding_attention'"),
    "groups of one layer": (_set(f"{DEC}.num_key_value_groups", 2), f"{DEC}.num_key_value_groups", "is 2, the"),
    "index of one layer": (_set(f"{DEC}.layer_idx", 1), f"{DEC}.layer_idx", "is 1, the checkpoint's config gives 2"),
    "causal": (_set(f"{ENC}.is_causal", True), f"{ENC}.is_causal", "is True"),
    "frequencies": (_frequencies, "decoder.rotary_emb.inv_freq", "begins with 1"),
    "another activation": (_set("encoder.layers.0.mlp.act_fn", nn.GELU()), "encoder.layers.0.mlp.act_fn", "is a GELU"),
    "theta in the config": (lambda model: setattr(model.config, "rope_theta", 1e6), "config.rope_parameters",
        "is {'rope_type': 'default', 'rope_theta': 1000000.0}"),
    "eps in the config": (lambda model: setattr(model.config, "rms_norm_eps", 1e-6), "config.rms_norm_eps", "is 1e-06"),
    "the tie in the config": (lambda model: setattr(model.config, "tie_word_embeddings", False),
        "config.tie_word_embeddings", "is False, the checkpoint's config gives True"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", SETTINGS)
def test_a_setting_that_is_not_the_checkpoints_is_found(narrow: Any, mistake: str) -> None:
    spoil, name, says = SETTINGS[mistake]
    model = initialize_from_qwen3(narrow[True], SENTINELS)
    spoil(model)
    _assert_fault(model, narrow[True], (name, "config_matches", says))


def test_what_users_may_choose_is_no_fault(narrow: Any) -> None:
    model = load_qwen3(narrow[True], num_sentinel_tokens=SENTINELS, rotate_encoder_keys=False).train()
    model.encoder.gradient_checkpointing = True
    model.config.use_cache = False
    assert _faults(model, narrow[True]) == []


def test_a_fault_reads_as_one_line() -> None:
    fault = WeightFault("encoder.norm.weight", "model.norm.weight", "norms_match", "never loaded: all ones")
    assert str(fault) == "norms_match: encoder.norm.weight (from model.norm.weight): never loaded: all ones"
    assert str(WeightFault("config.x", "", "config_matches", "is 1")) == "config_matches: config.x: is 1"


def test_a_checkpoint_that_is_not_whole_is_no_fault_of_the_model(narrow: Any, tmp_path: Path) -> None:
    model = initialize_from_qwen3(narrow[True], SENTINELS)
    with pytest.raises(ValueError, match=r"config\.json"):
        weight_faults(model, tmp_path)


def test_progress_counts_every_comparison(narrow: Any) -> None:
    reports: list[tuple[int, int, str]] = []
    model = initialize_from_qwen3(narrow[True], SENTINELS)
    verify_weight_initialization(model, narrow[True], progress=lambda *said: reports.append(said))
    assert [done for done, _, _ in reports] == list(range(1, reports[0][1] + 1))
    assert {message for _, _, message in reports} == {f"verifying {name}" for name, _ in model.named_parameters()}


def test_a_tensor_of_many_blocks_is_compared_to_its_last_element() -> None:
    source = torch.randn(3 * (1 << 21) // 64 + 5, 64)
    actual = source.clone()
    assert weight_comparison.difference(actual, source, tuple) is None
    actual[-1, -1] += 1
    assert f"1 of {source.numel()} elements differ, first at [{len(source) - 1}, 63]" in str(
        weight_comparison.difference(actual, source, tuple)
    )
