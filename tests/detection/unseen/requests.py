"""What a server and a search do between forwards: ids, rows, filters."""

from __future__ import annotations

from typing import Any

import torch
from transformers.generation.logits_process import TopKLogitsWarper

from detection.mutants.patch import Patch
from detection.unseen.row import row
from qwen3_encdec.modeling_qwen3_decoder import Qwen3Decoder

_STEPS = "decoder/ragged_decode"


def _ids_late(patch: Patch) -> None:
    fed: list[torch.Tensor] = []

    def forward(plain: Any, stack: Any, input_ids: torch.Tensor, **rest: Any) -> Any:
        late = fed[-1] if fed and input_ids.shape[1] == 1 else input_ids
        fed.append(input_ids[:, -1:])
        return plain(stack, input_ids=late, **rest)

    patch.wrap(Qwen3Decoder, "forward", forward)


def _sorted_rows(patch: Patch) -> None:
    order: list[torch.Tensor] = []

    def forward(plain: Any, stack: Any, *, attention_mask: torch.Tensor, **rest: Any) -> Any:
        order[:] = [attention_mask.sum(1).argsort(descending=True, stable=True)]
        return plain(stack, attention_mask=attention_mask, **rest)

    patch.wrap(Qwen3Decoder, "forward", forward)
    patch.result(patch.model.lm_head, "forward", lambda logits: logits[order[0]])


def _one_more(patch: Patch) -> None:
    def build(plain: Any, **settings: Any) -> Any:
        filters = plain(**settings)
        for processor in filters:
            if isinstance(processor, TopKLogitsWarper):
                processor.top_k += 1
        return filters

    patch.wrap(patch.model, "_get_logits_processor", build)


ROWS = (
    row("S20", "asynchronous scheduling: decode steps are fed the id of the step before", _ids_late,
        "decoder.embed_tokens", ["embedding.other_slot", "from.other_step", "from.other_slot", "wiring.previous_step"],
        _STEPS, "layer"),
    row("S21", "the batch is sorted by length for the kernel, logits are not put back in order", _sorted_rows, "logits",
        ["*: rows? 0, 2(,| and) 1|row 1 ← (batch )?row 2|2 ← 1, 1 ← 2|rows 2, 1"], _STEPS, "modules"),
    row("H2", "top-k keeps k + 1", _one_more, "next_token_probs", ["top_k.off_by_one"], "generation/sample", "layer"),
)  # fmt: skip
