"""A module around a transformers model as a reference: the last token's embedding, and the score of two answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from qwen3_golden import ParityError, read
from qwen3_reference.graph.capture import capture
from qwen3_reference.graph.pooled import LastToken, Scored, inside, last_token
from qwen3_reference.graph.tiny import tiny_model

LEFT = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
RIGHT = LEFT.flip(1)
HOLE = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0]])


def official(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """As the model card of Qwen3-Embedding pools."""
    if mask[:, -1].sum() == mask.shape[0]:
        return hidden[:, -1]
    return hidden[torch.arange(hidden.shape[0]), mask.sum(1) - 1]


@pytest.mark.parametrize("mask", [LEFT, RIGHT])
def test_the_last_token_is_that_of_the_official_function(mask: torch.Tensor) -> None:
    hidden = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(last_token(hidden, mask), official(hidden, mask))


def test_the_last_token_is_found_behind_holes_and_without_a_mask() -> None:
    hidden = torch.arange(10.0).reshape(2, 5, 1)
    assert last_token(hidden, HOLE).tolist() == [[3.0], [5.0]]
    assert last_token(hidden, None).tolist() == [[4.0], [9.0]]


def test_an_embedding_has_length_1_and_its_first_channels_have_it_again() -> None:
    model = tiny_model("qwen3").model
    ids = torch.tensor([[11, 12, 13, 14, 15], [21, 22, 23, 24, 25]])
    whole = LastToken(model)(input_ids=ids, attention_mask=RIGHT)
    cut = LastToken(model, 7)(input_ids=ids, attention_mask=RIGHT)["embedding"]
    assert torch.allclose(whole["embedding"].norm(dim=-1), torch.ones(2))
    assert torch.allclose(cut, F.normalize(whole["pooled"][:, :7], dim=-1), atol=1e-6)
    assert torch.equal(whole["pooled"], official(model(input_ids=ids, attention_mask=RIGHT)[0], RIGHT))


def test_a_score_is_the_softmax_of_two_logits() -> None:
    model = tiny_model("qwen3")
    ids = torch.tensor([[11, 12, 13, 14, 15], [21, 22, 23, 24, 25]])
    made = Scored(model, 3, 8)(input_ids=ids, attention_mask=LEFT)
    both = model(input_ids=ids, attention_mask=LEFT).logits[:, -1, [3, 8]]
    assert torch.equal(made["answers"], both)
    assert torch.allclose(made["score"], F.log_softmax(both, 1)[:, 1].exp())


def test_what_is_no_cut_no_answer_and_no_single_step_is_refused(tmp_path: Path) -> None:
    model = tiny_model("qwen3")
    with pytest.raises(ParityError, match="cut to some of its channels"):
        LastToken(model.model, 25)
    for no, yes in ((3, 3), (3, 61), (-1, 3)):
        with pytest.raises(ParityError, match="not the ids of two answers"):
            Scored(model, no, yes)
    inputs = {"input_ids": torch.full((2, 5), 11), "attention_mask": LEFT}
    with pytest.raises(ParityError, match="runs in one step"):
        capture(Scored(model, 3, 8), inputs, tmp_path / "g.pb", steps=(4, 1))
    assert not list(tmp_path.iterdir())


class Similar(nn.Module):
    """Somebody's own module around a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = model, nn.Linear(24, 5)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return {"embedding": F.normalize(self.head(last_token(hidden, attention_mask)))}


@pytest.mark.slow
def test_a_module_of_somebodys_own_around_a_model_is_captured(tmp_path: Path) -> None:
    model = Similar(tiny_model("qwen3").model).eval().requires_grad_(False)
    inputs = {"input_ids": torch.arange(11, 21).reshape(2, 5), "attention_mask": LEFT}
    capture(model, inputs, tmp_path / "own.pb")
    golden = read(tmp_path / "own.pb", digests=True)
    assert golden["embedding", 0].info.axes == ["batch", "channel"]
    assert {"encoder.layers.0.self_attn.q_proj", "head"} < {item.info.name for item in golden}
    assert "head.weight" in {leaf.name for leaf in golden.graph.parameter}


@pytest.mark.slow  # an export of its own
def test_a_models_modules_and_parameters_keep_their_names_within_the_module_around_it(tmp_path: Path) -> None:
    model = tiny_model("qwen3")
    inputs = {"input_ids": torch.arange(11, 21).reshape(2, 5), "attention_mask": LEFT}
    capture(Scored(model, 3, 8), inputs, tmp_path / "score.pb")
    golden = read(tmp_path / "score.pb", digests=True)
    assert golden.graph.architecture == "Qwen3ForCausalLM" and "its answer scored" in golden.case.description
    paths = set(dict(model.named_modules()))
    named = {item.info.name.partition("[")[0] for item in golden}
    assert {"model.layers.1.mlp", "lm_head", "answers", "score"} < named
    inner = (".query", ".key", ".value", ".probs", ".context")
    rest = {name.removesuffix(next((end for end in inner if name.endswith(end)), "")) for name in named} - paths
    assert {name for name in rest if not name.startswith("input.")} == {"logits", "answers", "score"}
    assert {leaf.name for leaf in golden.graph.parameter} <= set(dict(model.named_parameters()))
    assert {line.file for line in golden.graph.line} >= {"pooled.py", "modeling_qwen3.py"}
    assert golden["score", 0].info.axes == ["batch"] and golden["score", 0].info.floor.rms > 0
    assert inside(model) is model and np.isfinite(golden["score", 0].array).all()
