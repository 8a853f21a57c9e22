"""Every usual wrong way to wire a model ends in one message: where, rule, expected, got, what next."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_qwen3 import PlainQwen3
from torch import nn

import qwen3_parity
from qwen3_golden import ParityError
from qwen3_parity import Case


@pytest.fixture(scope="module")
def case() -> Case:
    return qwen3_parity.golden("decoder/plain")


@pytest.fixture(scope="module")
def model(case: Case) -> PlainQwen3:
    return PlainQwen3(case.checkpoint)


@pytest.fixture
def refused(case: Case, model: PlainQwen3, tmp_path: Path) -> Callable[..., ParityError]:
    """The refusal of a run with a name map, after which there is no file."""

    def refusal(
        names: Any = None, run: Callable[[PlainQwen3], Any] | None = None, of: nn.Module | None = None
    ) -> ParityError:
        with (
            pytest.raises(ParityError) as caught,
            qwen3_parity.record(of or model, case, names or {"wte": "embed_tokens"}, tmp_path / "x.pb"),
        ):
            (run or (lambda one: one(case.inputs["input_ids"])))(model)
        assert not (tmp_path / "x.pb").exists()
        error = caught.value
        assert all((error.where, error.rule, error.expected, error.got, error.next_step))
        return error

    return refusal


def test_a_model_that_is_not_built_yet(case: Case) -> None:
    with pytest.raises(ParityError, match="this is no torch module"):
        qwen3_parity.record(..., case)  # type: ignore[arg-type]


def test_a_model_of_which_no_module_matches(case: Case, model: PlainQwen3) -> None:
    nothing = "none of its modules has a name that Hugging Face"
    with pytest.raises(ParityError, match=nothing) as caught, qwen3_parity.record(model, case):
        pass
    assert "wte" in caught.value.got and "match-names" in caught.value.next_step


def test_a_module_that_the_model_does_not_have(refused: Callable[..., ParityError]) -> None:
    error = refused({"blocks.{layer}.mix.wqvk": ["q_proj", "k_proj", "v_proj"]})
    assert "no such module" in error.rule and "blocks.{layer}.mix.wqkv" in error.expected


def test_a_tap_that_there_is_not(refused: Callable[..., ParityError]) -> None:
    error = refused({"blocks.{layer}.mix.wo": "o_porj"})
    assert "no tap of this name" in error.rule and "o_proj" in error.expected


def test_two_modules_for_one_tap(refused: Callable[..., ParityError]) -> None:
    error = refused({"blocks.{layer}.n1": "input_layernorm", "blocks.{layer}.n2": "input_layernorm"})
    assert "has one place already" in error.rule and error.got == "blocks.{layer}.n1"


def test_the_layers_number_on_one_side_alone(refused: Callable[..., ParityError]) -> None:
    assert "{layer} in both" in refused({"blocks.0.mix.wo": "o_proj"}).expected


def test_an_entry_that_is_no_tap(refused: Callable[..., ParityError]) -> None:
    assert "says no tap" in refused({"wte": 3}).rule
    assert "says no tap" in refused({"wte": {"tap": "embed_tokens", "transpose": True}}).rule
    assert "no module" in refused({"wte:outputs": "embed_tokens"}).rule


def test_a_shape_that_is_not_the_taps(refused: Callable[..., ParityError]) -> None:
    error = refused({"blocks.{layer}.ffn.w2": "q_proj"})
    assert "[1, 9, 60]" in error.expected and "[9, 1, 40]" in error.got and "blocks.{layer}.ffn.w2" in error.where


def test_axes_that_the_tensor_does_not_have(refused: Callable[..., ParityError]) -> None:
    error = refused({"blocks.{layer}.mix.qn": {"tap": "q_norm", "axes": "batch heads head_dim"}})
    assert "not that of decoder.layers.0.merged_attn.q_norm" in error.rule


def test_taps_that_do_not_make_up_a_fused_product(refused: Callable[..., ParityError]) -> None:
    error = refused({"blocks.{layer}.mix.wqkv": ["q_proj", "k_proj"]})
    assert "q_proj 60 + k_proj 20 = 80" in error.expected and "[9, 1, 100]" in error.got


def test_a_forward_too_many(case: Case, refused: Callable[..., ParityError]) -> None:
    error = refused(run=lambda model: [model(case.inputs["input_ids"]) for _ in range(2)])
    assert "runs once more" in error.rule and error.got == "forward 2"


def test_no_forward_at_all(refused: Callable[..., ParityError]) -> None:
    assert "did not run" in refused(run=lambda model: None).rule


def test_a_forward_that_passes_hooks_by(case: Case, refused: Callable[..., ParityError]) -> None:
    error = refused(run=lambda model: model.forward(case.inputs["input_ids"]))
    assert "not model.forward" in error.next_step


def test_a_run_that_stops_before_the_end(case: Case, refused: Callable[..., ParityError]) -> None:
    error = refused(run=lambda model: model(case.inputs["input_ids"][:, :5]))
    assert "not run to its end" in error.rule and error.got == "5 slots in 1 forwards"


def test_other_ids_than_the_cases(refused: Callable[..., ParityError]) -> None:
    error = refused(run=lambda model: model(torch.zeros(1, 9, dtype=torch.int64)))
    assert "not the case's input_ids" in error.rule and "int64 [1, 9]" in error.got


def test_a_module_that_gives_no_tensor(case: Case, refused: Callable[..., ParityError]) -> None:
    class Pair(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
            return [self.model(ids)]

    pair = Pair(PlainQwen3(case.checkpoint))
    error = refused({"": "logits", "model.wte": "embed_tokens"}, run=lambda _: pair(case.inputs["input_ids"]), of=pair)
    assert error.rule == "this is no tensor" and error.got == "list"


def test_a_case_that_is_no_single_stack(model: PlainQwen3) -> None:
    with pytest.raises(ParityError, match="not a run of one stack"), qwen3_parity.record(model, "encdec/ragged"):
        pass


def test_a_name_map_that_cannot_be_read(model: PlainQwen3, case: Case, tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="cannot be read"), qwen3_parity.record(model, case, tmp_path / "none.toml"):
        pass
    (tmp_path / "bad.toml").write_text("blocks = = 3")
    with pytest.raises(ParityError, match="this is no TOML"), qwen3_parity.record(model, case, tmp_path / "bad.toml"):
        pass
