"""The data collator: tokenized texts become padded batches of span corruption, ready for `Qwen3ForSeq2SeqLM`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedTokenizerBase

from .modeling_qwen3_encdec import IGNORED_LABEL
from .sentinels import check_sentinels
from .span_corruption import T5, Denoiser, corrupt, noise_spans


@dataclass
class SpanCorruptionCollator:
    """Hides random spans of each example anew: `collator([{"input_ids": [...]}, …])`, for `Trainer` and `DataLoader`.

    `tokenizer` comes from `add_sentinels`. Each example takes one denoiser of the `mixture`. Both sides end with the
    end-of-sequence token, and rows are padded on the right. Chance comes from `generator`, by default torch's own,
    which a `DataLoader` seeds for each worker. `ValueError` for a tokenizer without sentinels, padding token or end.
    """

    tokenizer: PreTrainedTokenizerBase
    mixture: Sequence[Denoiser] = T5
    generator: torch.Generator | None = None
    sentinels: range = field(init=False)

    def __post_init__(self) -> None:
        """Look the sentinels up, once."""
        settings = self.tokenizer.init_kwargs
        first, count = settings.get("first_sentinel_id"), settings.get("num_sentinel_tokens")
        if not isinstance(first, int) or not isinstance(count, int) or not count:
            raise ValueError("the tokenizer says nothing of sentinels; make it with add_sentinels")
        check_sentinels(self.tokenizer, first, count)
        if self.tokenizer.eos_token_id is None or self.tokenizer.pad_token_id is None:
            raise ValueError("the tokenizer needs an eos_token and a pad_token")
        self.sentinels = range(first, first + count)

    def corrupted(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """One example's input and target, each with its end of sequence."""
        drawn = int(torch.randint(len(self.mixture), (1,), generator=self.generator))
        denoiser = self.mixture[drawn]
        source, target = corrupt(ids, noise_spans(len(ids), denoiser, self.generator), self.sentinels)
        prefix = self.tokenizer.encode(denoiser.prefix, add_special_tokens=False) if denoiser.prefix else []
        end = self.tokenizer.eos_token_id
        return [*prefix, *source, end], [*target, end]

    def __call__(self, examples: Sequence[Mapping[str, Sequence[int]] | Sequence[int]]) -> dict[str, torch.Tensor]:
        """`input_ids`, `attention_mask` `[batch, source]`, `labels` `[batch, target]`, int64; padded labels -100."""
        if not examples:
            raise ValueError("a batch needs at least one example")
        ids = [example["input_ids"] if isinstance(example, Mapping) else example for example in examples]
        sources, targets = zip(*map(self.corrupted, ids), strict=True)
        pad = self.tokenizer.pad_token_id
        return {
            "input_ids": _padded(sources, pad),
            "attention_mask": _padded([[1] * len(row) for row in sources], 0),
            "labels": _padded(targets, IGNORED_LABEL),
        }


def _padded(rows: Sequence[Sequence[int]], value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])
