"""A module around a transformers model as a reference: the last token's embedding, and the score of "yes" against "no".

The model's modules and parameters keep their names; what the module around it gives are taps, and the case's results.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from qwen3_golden import ParityError

POOL, DIMENSIONS, NO, YES = "pool_last", "dimensions", "score_no", "score_yes"
"""The attributes of a case of mode GRAPH that say what stands around its model."""


class Around(nn.Module):
    """A module around a model, whose modules keep their names; it takes what the model takes, and gives a dict of taps.

    `says` is what it makes of the model, for people; `attributes` say it to programs, in a case.
    """

    says = ""
    attributes: Mapping[str, float] = {}

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        takes = inspect.signature(model.forward).parameters
        self.more = {"use_cache": False} if "use_cache" in takes else {}


def inside(module: nn.Module) -> nn.Module:
    """The model after which modules and parameters are called: a module itself, but for one `Around` a model."""
    return module.model if isinstance(module, Around) else module


def last_token(values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """`[batch, channel]` of `[batch, query, channel]`: each row's last position where the mask `[batch, query]` is 1.

    Right for padding on either side, and for holes; without a mask it is the last position.
    """
    if mask is None:
        return values[:, -1]
    positions = torch.arange(values.shape[1], device=values.device)
    last = (positions * mask.long()).amax(-1)
    return values[torch.arange(values.shape[0], device=values.device), last]


class LastToken(Around):
    """The embedding `[batch, channel]`: the last real token's hidden state, of length 1.

    With `dimensions` (Matryoshka) its first channels alone, of length 1 again. Taps: "pooled" `[batch, channel]` before
    its length is taken out, and "embedding". Raises `ParityError` for more dimensions than the model has.
    """

    says = ", its last token pooled"

    def __init__(self, model: nn.Module, dimensions: int = 0) -> None:
        super().__init__(model)
        width = getattr(getattr(model, "config", None), "hidden_size", None)
        if dimensions < 0 or (isinstance(width, int) and dimensions > width):
            raise ParityError(
                "--dimensions",
                "an embedding is cut to some of its channels",
                expected=f"a number from 1 to {width or 'the width'}",
                got=dimensions,
                next_step="give fewer --dimensions",
            )
        self.dimensions = dimensions
        self.attributes = {POOL: 1} | ({DIMENSIONS: dimensions} if dimensions else {})

    def forward(self, **inputs: Any) -> dict[str, torch.Tensor]:
        """The taps, from the model's own inputs by name."""
        hidden = self.model(**inputs, **self.more).last_hidden_state
        pooled = last_token(hidden, inputs.get("attention_mask"))
        embedding = F.normalize(pooled, p=2, dim=-1)
        if self.dimensions:
            embedding = F.normalize(embedding[:, : self.dimensions], p=2, dim=-1)
        return {"last_hidden_state": hidden, "pooled": pooled, "embedding": embedding}


class Scored(Around):
    """The score `[batch]`: how probable "yes" is, of "no" and "yes" alone, behind the last real token.

    `no` and `yes` are their ids. Taps: "answers" `[batch, channel]`, the two logits in this order, and "score". The
    template around query and document (a reranker's prefix, its instruction, the empty <think> block) is the text's
    affair. Raises `ParityError` for ids that are not two of the vocabulary.
    """

    says = ", its answer scored"

    def __init__(self, model: nn.Module, no: int, yes: int) -> None:
        super().__init__(model)
        size = getattr(getattr(model, "config", None), "vocab_size", max(no, yes) + 1)
        if no == yes or not 0 <= min(no, yes) <= max(no, yes) < size:
            raise ParityError(
                "--score",
                "these are not the ids of two answers",
                expected=f"two different ids from 0 to {size - 1}, that of no first",
                got=f"{no},{yes}",
                next_step="give the ids of the checkpoint's own tokenizer",
            )
        self.no, self.yes = no, yes
        self.attributes = {NO: no, YES: yes}

    def forward(self, **inputs: Any) -> dict[str, torch.Tensor]:
        """The taps, from the model's own inputs by name."""
        logits = self.model(**inputs, **self.more).logits
        last = last_token(logits, inputs.get("attention_mask"))
        answers = torch.stack([last[:, self.no], last[:, self.yes]], -1)
        return {"logits": logits, "answers": answers, "score": torch.softmax(answers, -1)[:, 1]}


def around(model: nn.Module, attributes: Mapping[str, float]) -> nn.Module:
    """What a case's attributes say around its model, the model itself where they say nothing; of `POOL` without head.

    Raises `ParityError` as `LastToken` and `Scored`.
    """
    if POOL in attributes:
        return LastToken(model, int(attributes.get(DIMENSIONS, 0)))
    if NO in attributes and YES in attributes:
        return Scored(model, int(attributes[NO]), int(attributes[YES]))
    return model
