"""A model's forward is called by the names of its arguments, whatever they are, or it is said what it lacks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from plain_qwen3 import PlainQwen3
from torch import nn
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import ParityError
from qwen3_parity.cli import main
from qwen3_parity.recording.arguments import arguments_of

RAGGED = "decoder/ragged_decode"

FORWARDS = {
    "ids": "ids, attention_mask=None, position_ids=None",
    "tokens": "tokens, attention_mask, positions",
    "x": "x, *, position_ids, attention_mask",
    "idx": "idx, attention_mask, pos_ids=None",
    "alone": "input_ids, attention_mask, position_ids, /",
    "behind": "batch_of_ids, cache=None, /, attention_mask=None, *, position_ids",
    "named": "ids, **named",
    "anything": "*args, **named",
}
FACTORY = """
from torch import nn
from transformers import AutoModelForCausalLM

class Own(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.lm_head = model.model, model.lm_head

    def forward(self, {arguments}):
        return self.lm_head(self.model({call}).last_hidden_state)

def build(case, checkpoints):
    return Own(AutoModelForCausalLM.from_pretrained(checkpoints["decoder"]))
"""


def called(arguments: str) -> str:
    """The call of Hugging Face's model by a forward of these arguments."""
    names = [one.partition("=")[0].strip() for one in arguments.split(",")]
    ids, mask = next(one for one in names if one not in "*/"), "attention_mask"
    positions = next((one for one in names if one.startswith("pos")), "position_ids")
    if ids == "*args":
        return "**named"
    return f"{ids}, **named" if "**named" in names else f"{ids}, attention_mask={mask}, position_ids={positions}"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A factory, in a file in the current folder, of Hugging Face's model behind a forward of these arguments."""
    monkeypatch.chdir(tmp_path)

    def written(arguments: str, call: str | None = None) -> str:
        module = f"forward_{tmp_path.name}"  # folders of earlier tests stay on the path
        (tmp_path / f"{module}.py").write_text(FACTORY.format(arguments=arguments, call=call or called(arguments)))
        return f"{module}:build"

    return written


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("name", FORWARDS)
def test_an_input_goes_to_the_argument_that_it_is(name: str, build: Callable[..., str]) -> None:
    result = run("record", RAGGED, "--impl", build(FORWARDS[name]))
    assert result.exit_code == 0, result.output
    assert qwen3_parity.check(RAGGED, f"build/parity/{RAGGED}.pb").word == "parity"


@pytest.mark.parametrize("verb", [("record", RAGGED, "--impl"), ("match-names", RAGGED, "--impl")], ids=" ".join)
@pytest.mark.parametrize(
    ("arguments", "call", "lacks"),
    [
        ("ids", "ids", "attention_mask and position_ids"),
        ("*args", "*args", "attention_mask and position_ids"),
        ("ids, mask=None, position_ids=None", "ids, mask, position_ids", "attention_mask"),
        ("ids, attn_mask=None, **named", "ids, attn_mask, **named", "attention_mask"),
    ],
)
def test_padding_that_a_forward_does_not_take_is_no_fault_of_the_model(
    verb: tuple[str, ...], arguments: str, call: str, lacks: str, build: Callable[..., str]
) -> None:
    refused = run(*verb, build(arguments, call))
    assert refused.exit_code == 2
    assert f"it has no argument for {lacks}, and without" in refused.output
    assert "input_ids (or ids, tokens, " in refused.output and "self.model(input_ids, mask=" in refused.output
    assert not Path(f"build/parity/{RAGGED}.pb").exists()


def test_an_argument_that_no_input_is_called_like_is_refused(build: Callable[..., str]) -> None:
    refused = run("record", RAGGED, "--impl", build("ids, cache, attention_mask, position_ids", "ids"))
    assert refused.exit_code == 2 and "no input of a case is called cache" in refused.output
    assert "forward(ids, cache, attention_mask, position_ids)" in refused.output


class Takes(nn.Module):
    """A model whose forward is another function."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = forward


def test_nothing_is_lacking_where_there_is_no_padding() -> None:
    case = qwen3_parity.golden("decoder/plain")
    args, named = arguments_of(PlainQwen3(case.checkpoint), case)
    assert not args and list(named) == ["tokens"]


def test_positions_that_the_mask_implies_need_no_argument() -> None:
    args, named = arguments_of(Takes(lambda ids, attention_mask: ids), qwen3_parity.golden(RAGGED))
    assert not args and list(named) == ["ids", "attention_mask"]
    with pytest.raises(ParityError, match="no argument for position_ids"):
        arguments_of(Takes(lambda ids, attention_mask: ids), qwen3_parity.golden("long/position_32768"))


def test_padding_behind_a_text_is_seen_by_an_encoder_alone() -> None:
    def ids_alone(ids: torch.Tensor) -> torch.Tensor:
        return ids

    assert arguments_of(Takes(ids_alone), qwen3_parity.golden("encoder/one_token"))[1].keys() == {"ids"}
    with pytest.raises(ParityError, match="no argument for attention_mask"):
        arguments_of(Takes(ids_alone), qwen3_parity.golden("long/encoder_129"))


def test_embeddings_are_not_given_as_ids() -> None:
    case = qwen3_parity.golden("decoder/inputs_embeds")
    named = arguments_of(Takes(lambda x, attention_mask, position_ids: x), case)[1]
    assert torch.equal(named["x"], case.inputs["inputs_embeds"])
    with pytest.raises(ParityError, match="no argument for inputs_embeds"):
        arguments_of(Takes(lambda tokens, attention_mask, position_ids: tokens), case)


def test_hugging_faces_model_is_called_by_all_its_names() -> None:
    case = qwen3_parity.golden("decoder/mask_4d")
    args, named = arguments_of(AutoModelForCausalLM.from_pretrained(case.checkpoint), case)
    assert not args and list(named) == ["input_ids", "attention_mask", "position_ids"]
    assert named["attention_mask"].ndim == 4
