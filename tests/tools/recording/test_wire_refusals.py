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


LAYER = "blocks.{layer}"
NAMES: list[tuple[dict[str, object], str]] = [
    ({f"{LAYER}.mix.wqvk": ["q_proj", "k_proj", "v_proj"]}, f"no such module | {LAYER}.mix.wqkv"),
    ({f"{LAYER}.mix.wo": "o_porj"}, "no tap of this name | o_proj"),
    ({f"{LAYER}.n1": "input_layernorm", f"{LAYER}.n2": "input_layernorm"}, f"has one place already | {LAYER}.n1"),
    ({"blocks.0.mix.wo": "o_proj"}, "{layer} in both"),
    ({"wte": 3}, "says no tap"),
    ({"wte": {"tap": "embed_tokens", "transpose": True}}, "says no tap"),
    ({"wte:outputs": "embed_tokens"}, "no module"),
    ({f"{LAYER}.ffn.w2": "q_proj"}, f"[1, 9, 60] | [9, 1, 40] | {LAYER}.ffn.w2"),
    ({f"{LAYER}.mix.qn": {"tap": "q_norm", "axes": "batch heads head_dim"}}, "not that of decoder.layers.0"),
    ({f"{LAYER}.mix.wqkv": ["q_proj", "k_proj"]}, "q_proj 60 + k_proj 20 = 80 | [9, 1, 100]"),
]  # fmt: skip
RUNS: list[tuple[Callable[[PlainQwen3, torch.Tensor], object], str]] = [
    (lambda model, ids: [model(ids) for _ in range(2)], "runs once more | forward 2"),
    (lambda model, ids: None, "did not run"),
    (lambda model, ids: model.forward(ids), "not model.forward"),
    (lambda model, ids: model(ids[:, :5]), "not run to its end | 5 slots in 1 forwards"),
    (lambda model, ids: model(torch.zeros(1, 9, dtype=torch.int64)), "not the case's input_ids | int64 [1, 9]"),
]


def told(error: ParityError, words: str) -> bool:
    return all(word in str(error) for word in words.split(" | "))


@pytest.mark.parametrize(("names", "words"), NAMES)
def test_a_name_map_that_does_not_fit(names: object, words: str, refused: Callable[..., ParityError]) -> None:
    assert told(refused(names), words)


@pytest.mark.parametrize(("run", "words"), RUNS)
def test_a_run_that_is_not_the_cases(run: Any, words: str, case: Case, refused: Callable[..., ParityError]) -> None:
    assert told(refused(run=lambda model: run(model, case.inputs["input_ids"])), words)


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
