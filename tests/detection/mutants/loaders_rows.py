"""Seeded bugs of a loader: the shared matrix, its sentinel rows, the head and the ties."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.loaders_entry import (
    BFLOAT16,
    BOTH,
    NO_TENSOR,
    OWN_TABLE,
    PADDING,
    QWEN2,
    SENTINEL_ROWS,
    STATISTICS,
    TAKEN_TABLE,
    TIED,
    UNTIED,
    loader,
)
from detection.mutants.loaders_models import one_element
from detection.mutants.loaders_run import SENTINELS
from detection.mutants.loaders_seeds import config, embedding_rows, model, noise, parameter, then
from detection.mutants.mutant import Seed

_SHARED = "lm_head.weight: shares the memory of shared.weight"


def _other_rows(first: int) -> Any:
    """The sentinel rows stand `first` rows behind the end of the vocabulary; what was there is gone."""

    def change(weight: torch.Tensor) -> torch.Tensor:
        end = len(weight) - SENTINELS
        rows = weight[end:].clone()
        weight[end:] = weight[:SENTINELS]
        weight[end + first : end + first + SENTINELS] = rows
        return weight

    return change


def _sentinels(values: Any) -> Any:
    def change(weight: torch.Tensor) -> torch.Tensor:
        weight[-SENTINELS:] = values(weight)
        return weight

    return change


def _drawn(weight: torch.Tensor) -> torch.Tensor:
    """Rows of another seed, mean and spread as they should be."""
    rows = torch.randn(SENTINELS, weight.shape[1], generator=torch.Generator().manual_seed(11))
    wide = weight[:-SENTINELS].float()
    return ((rows - rows.mean()) / rows.std() * wide.std() + wide.mean()).to(weight.dtype)


_ROWS = (
    loader("EMB-04/loader", "sentinel rows are put over the padding rows at the tokenizer's length",
           embedding_rows(_other_rows(-PADDING)), f"original_embeddings_preserved {SENTINEL_ROWS}",
           ["120 of 8440 elements differ, first at [208, 0]", NO_TENSOR, *STATISTICS], (TIED,)),
    loader("EMB-04/loader_ids", "the config says that sentinels begin at the tokenizer's length",
           config(first_sentinel_id=lambda first: first - PADDING), "config_matches", ["config.first_sentinel_id: is "],
           BOTH),
    loader("EMB-06/loader", "the encoder's embedding is never loaded", parameter("encoder.embed_tokens.weight", noise),
           f"embeddings_tied original_embeddings_preserved {SENTINEL_ROWS}", OWN_TABLE, (*BOTH, QWEN2)),
    loader("EMB-06/loader_decoder", "the decoder's embedding is never loaded",
           parameter("decoder.embed_tokens.weight", noise),
           f"embeddings_tied original_embeddings_preserved {SENTINEL_ROWS}", OWN_TABLE, BOTH),
    loader("EMB-08/loader", "the table is as long as the tokenizer",
           embedding_rows(lambda weight: weight[: -SENTINELS - PADDING]),
           "embedding_extended original_embeddings_preserved",
           ["223 rows of the checkpoint and 7 sentinels", "expected [223, 40]"], (UNTIED,)),
    loader("EMB-08/loader_sentinels", "no rows are added", embedding_rows(lambda weight: weight[:-SENTINELS]),
           "embedding_extended",
           ["has the shape [223, 40], expected [230, 40]: 223 rows of the checkpoint and 7 sentinels"], (UNTIED,)),
    loader("EMB-09/loader", "sentinel rows are drawn without the seed", embedding_rows(_sentinels(_drawn)),
           "sentinel_rows_seeded", [NO_TENSOR], (*BOTH, BFLOAT16)),
    loader("EMB-09/loader_statistics", "sentinel rows are drawn with initializer_range",
           embedding_rows(_sentinels(lambda weight: noise(weight[-SENTINELS:]))), SENTINEL_ROWS,
           [NO_TENSOR, *STATISTICS], BOTH),
    loader("own/loader-one-id", "row 17 of the embedding is that of row 16",
           embedding_rows(lambda weight: weight.index_copy(0, torch.tensor([17]), weight[16:17])),
           "original_embeddings_preserved", ["rows are rows of its source, first row 17: its row 16"], BOTH),
)  # fmt: skip


def _own_head(values: Any) -> Seed:
    return model(lambda found: setattr(found.lm_head, "weight", torch.nn.Parameter(values(found))))


_HEADS = (
    loader("HED-01/loader", "an untied head is the embedding",
        then(model(lambda found: setattr(found.lm_head, "weight", found.shared.weight)),
        config(tie_word_embeddings=True)), f"head_match embeddings_tied config_matches {SENTINEL_ROWS}",
        ["config.tie_word_embeddings: is True", _SHARED, *TAKEN_TABLE], (UNTIED, QWEN2)),
    loader("HED-01/loader_tied", "a tied head is one of its own, never loaded",
        then(parameter("lm_head.weight", noise), config(tie_word_embeddings=False)),
        f"head_match embeddings_tied config_matches {SENTINEL_ROWS}",
        ["config.tie_word_embeddings: is False", *OWN_TABLE], (TIED, BFLOAT16)),
    loader("HED-02/loader", "an untied head is tied to the embedding",
        model(lambda found: setattr(found.lm_head, "weight", found.shared.weight)),
        f"head_match embeddings_tied {SENTINEL_ROWS}", [_SHARED, *TAKEN_TABLE], (UNTIED, QWEN2)),
    loader("HED-04/loader", "the embedding is copied over an untied head",
        _own_head(lambda found: found.shared.weight.detach().clone()), f"head_match {SENTINEL_ROWS}", TAKEN_TABLE,
        (UNTIED, QWEN2)),
    loader("own/loader-head-element", "one element of an untied head", parameter("lm_head.weight", one_element),
        "head_match", ["1 of ", "first at [0, 3]"], (UNTIED, QWEN2)),
    loader("HED-05/loader_untied", "a redundant head with other values replaces the tie",
        _own_head(lambda found: found.shared.weight.detach() + 1), f"head_match embeddings_tied {SENTINEL_ROWS}",
        ["is its source plus 1", *OWN_TABLE], (TIED,)),
    loader("HED-08/loader", "the head gets no sentinel rows",
        _own_head(lambda found: found.lm_head.weight.detach()[:-SENTINELS].clone()), "embedding_extended",
        ["lm_head.weight: has the shape [223, 40], expected [230, 40]"], (UNTIED,)),
    loader("HED-08/loader_tied", "the head is not tied again when the embedding grows",
        _own_head(lambda found: found.shared.weight.detach()[:-SENTINELS].clone()),
        "embeddings_tied embedding_extended",
        ["lm_head.weight: has the shape [211, 40], expected [218, 40]", "lm_head.weight: is not tied"], (TIED,)),
    loader("HED-08/loader_size", "config.vocab_size is the source's", config(vocab_size=lambda size: size - SENTINELS),
        "config_matches", ["config.vocab_size: is "], BOTH),
    loader("WLD-20/loader", "saving and loading makes a copy of the tied head",
        _own_head(lambda found: found.shared.weight.detach().clone()), "embeddings_tied",
        ["lm_head.weight: is not tied to shared.weight: a copy with the same values"], (TIED, BFLOAT16)),
    loader("WLD-20/loader_encoder", "saving and loading makes a copy of the encoder's table",
        parameter("encoder.embed_tokens.weight", lambda weight: weight), "embeddings_tied",
        ["encoder.embed_tokens.weight: is not tied to shared.weight: a copy with the same values"], (*BOTH, QWEN2)),
)  # fmt: skip

ROWS = (*_ROWS, *_HEADS)
