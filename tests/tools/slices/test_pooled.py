"""Embeddings and scores are judged as any tap, and each side of padding shows what the other hides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from pooled import NO, YES, goldens, soft_model
from torch import nn
from torch.nn import functional as F  # noqa: N812

import qwen3_parity
from qwen3_golden import Recording
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.judge.verdict import Verdicts
from qwen3_reference.graph.pooled import DIMENSIONS, POOL, LastToken, last_token

pytestmark = pytest.mark.slow  # captures of their own; what they show is committed, and judged with the others
Pick = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Goldens = dict[tuple[str, str], Recording]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Goldens:
    return goldens(tmp_path_factory.mktemp("pooled"))


class Alone(nn.Module):
    """Somebody's network that gives its embedding and no more."""

    def __init__(self, around: nn.Module) -> None:
        super().__init__()
        self.network = around

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        embedding: torch.Tensor = self.network(**inputs)["embedding"]
        return embedding


def last_slot(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return values[:, -1]


def count_less_one(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return values[torch.arange(len(values)), mask.sum(1) - 1]


def mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (values * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def judged(golden: Recording, pick: Pick, path: Path, *, again: bool = True, swapped: bool = False) -> Verdicts:
    """Hugging Face's own modules under SDPA, and a pooling of somebody's own handed over by name."""
    model, case = soft_model(), qwen3_parity.golden(golden.source)
    model.config._attn_implementation = "sdpa"
    embeds = ("embedding", 0) in golden
    with torch.no_grad(), qwen3_parity.record(model.model if embeds else model, case, path=path) as recording:
        result = (model.model if embeds else model)(**case.inputs)
        last = pick(result[0], case.inputs["attention_mask"])
        if embeds:
            embedding = F.normalize(last, dim=-1)[:, :16]
            recording["embedding"] = F.normalize(embedding, dim=-1) if again else embedding
        else:
            recording["score"] = last[:, [YES, NO] if swapped else [NO, YES]].softmax(-1)[:, 1]
    return check(golden, path, weights_of(golden, Path(golden.source).parent))


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("kind", ["embedding", "reranker"])
def test_each_side_of_padding_hides_a_mistake_which_the_other_shows(
    cases: Goldens, kind: str, padding: str, tmp_path: Path
) -> None:
    golden = cases[kind, padding]
    words = {
        pick.__name__: judged(golden, pick, tmp_path / f"{pick.__name__}.pb")
        for pick in (last_token, last_slot, count_less_one, mean)
    }
    said = {name: verdicts.word for name, verdicts in words.items()}
    hidden, shown = ("last_slot", "count_less_one") if padding == "left" else ("count_less_one", "last_slot")
    assert said == {"last_token": "parity", hidden: "parity", shown: "divergence", "mean": "divergence"}
    result = "embedding" if kind == "embedding" else "score"
    assert words[shown].wrong_alone == words["mean"].wrong_alone == [result]
    assert not words["last_token"].wrong_alone


def test_an_embedding_cut_and_left_at_its_length_and_answers_exchanged_are_divergence(
    cases: Goldens, tmp_path: Path
) -> None:
    cut = judged(cases["embedding", "right"], last_token, tmp_path / "cut.pb", again=False)
    exchanged = judged(cases["reranker", "left"], last_token, tmp_path / "no.pb", swapped=True)
    assert cut.wrong_alone == ["embedding"] and exchanged.wrong_alone == ["score"]


@pytest.mark.parametrize("padding", ["left", "right"])
def test_the_module_around_a_model_is_recorded_as_it_is(cases: Goldens, padding: str, tmp_path: Path) -> None:
    golden, around = cases["embedding", padding], LastToken(soft_model().model, 16)
    case = qwen3_parity.golden(golden.source)
    with torch.no_grad(), qwen3_parity.record(around, case, path=tmp_path / "whole.pb") as recording:
        around(**case.inputs)
    assert ("pooled", 0) in recording and ("embedding", 0) in recording
    assert check(golden, tmp_path / "whole.pb", weights_of(golden, Path(golden.source).parent)).word == "parity"


def test_an_embedding_given_alone_is_the_result_of_its_number_of_axes(cases: Goldens, tmp_path: Path) -> None:
    golden, around = cases["embedding", "left"], Alone(LastToken(soft_model().model, 16))
    case = qwen3_parity.golden(golden.source)
    with torch.no_grad(), qwen3_parity.record(around, case, path=tmp_path / "alone.pb") as recording:
        around(**case.inputs)
    assert ("embedding", 0) in recording and not recording.left_out
    assert check(golden, tmp_path / "alone.pb", weights_of(golden, Path(golden.source).parent)).word == "parity"


@pytest.mark.parametrize("kind", ["embedding", "reranker"])
def test_hugging_faces_own_is_recorded_by_the_command_with_what_stands_around_it(
    cases: Goldens, kind: str, tmp_path: Path
) -> None:
    golden = cases[kind, "right"]
    said = {attribute.key: attribute.value for attribute in golden.case.attributes}
    assert said == ({POOL: 1, DIMENSIONS: 16} if kind == "embedding" else {"score_no": NO, "score_yes": YES})
    path = tmp_path / "own.pb"
    done = CliRunner().invoke(main, ["record", golden.source, "--backend", "sdpa", "--out", str(path)])
    assert done.exit_code == 0, done.output
    verdicts = check(golden, path, weights_of(golden, Path(golden.source).parent))
    assert verdicts.word == "parity" and {"embedding", "score"} & {tap.name for tap in verdicts.taps}


def test_scores_are_soft_and_a_recording_without_them_is_partial(cases: Goldens, tmp_path: Path) -> None:
    golden = cases["reranker", "left"]
    scores = golden["score", 0].array
    assert scores.shape == (8,) and scores.min() > 0.02 and scores.max() < 0.98 and np.ptp(scores) > 0.3
    case, model = qwen3_parity.golden(golden.source), soft_model()
    with torch.no_grad(), qwen3_parity.record(model, case, path=tmp_path / "modules.pb"):
        model(**case.inputs)
    verdicts = check(golden, tmp_path / "modules.pb", weights_of(golden, Path(golden.source).parent))
    assert verdicts.exit_code == 1 and not verdicts.wrong_alone
    assert verdicts.word != "parity"
