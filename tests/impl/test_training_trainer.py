"""Hugging Face's Trainer fine-tunes a tiny model on span corruption, with our collator, and the loss goes down."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, Trainer, TrainingArguments

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM
from qwen3_encdec.tokenization_qwen3_encdec import SpanCorruptionCollator, add_sentinels
from qwen3_golden import GOLDEN_ROOT

TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
TEXTS = ("one two three four five six seven eight", "red orange yellow green blue", "do re mi fa so la ti do")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    largest = max(AutoTokenizer.from_pretrained(TINY).get_vocab().values())
    return add_sentinels(TINY, (largest // 64 + 1) * 64, 100)


def tiny(tokenizer: Any) -> Qwen3ForSeq2SeqLM:
    torch.manual_seed(0)
    first = tokenizer.init_kwargs["first_sentinel_id"]
    config = Qwen3EncoderDecoderConfig(
        vocab_size=first + 100,
        first_sentinel_id=first,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForSeq2SeqLM(config)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("checkpointing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_loss_of_span_corruption_goes_down(tokenizer: Any, tmp_path: Path, checkpointing: bool) -> None:
    model = tiny(tokenizer)
    examples: Any = [{"input_ids": tokenizer.encode(text)} for text in TEXTS * 4]
    arguments = TrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        gradient_checkpointing=checkpointing,
        max_steps=18,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=6,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
        seed=0,
    )
    collator = SpanCorruptionCollator(tokenizer, generator=torch.Generator().manual_seed(0))
    trainer = Trainer(model, arguments, train_dataset=examples, data_collator=collator)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.7 * losses[0]
