"""Small loud models for the unit tests of the implementation: norm weights away from 1, nothing equal to anything."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

from qwen3_encdec import Qwen3EncoderDecoderConfig, Qwen3ForSeq2SeqLM

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "rms_norm_eps": 1e-5,
}


def _make_loud(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1.0 + 0.4 * noise)
            elif "embed" in name or "shared" in name or "lm_head" in name:
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * 1.5 / parameter.shape[-1] ** 0.5)


@pytest.fixture(autouse=True, scope="session")
def _one_quiet_thread() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()


@pytest.fixture(scope="session")
def make_loud() -> Callable[[torch.nn.Module, int], None]:
    return _make_loud


@pytest.fixture(scope="session")
def make_config() -> Callable[..., Qwen3EncoderDecoderConfig]:
    def make(**overrides: Any) -> Qwen3EncoderDecoderConfig:
        fields = SIZES | {"num_sentinel_tokens": 0, "rope_theta": 50_000.0, "decoder_start_token_id": 3}
        return Qwen3EncoderDecoderConfig(**(fields | {"attn_implementation": "eager"} | overrides))

    return make


@pytest.fixture(scope="session")
def make_model(make_config: Callable[..., Qwen3EncoderDecoderConfig]) -> Callable[..., Qwen3ForSeq2SeqLM]:
    def make(seed: int = 0, **overrides: Any) -> Qwen3ForSeq2SeqLM:
        model = Qwen3ForSeq2SeqLM(make_config(**overrides))
        _make_loud(model, seed)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def make_hf() -> Callable[..., Qwen3ForCausalLM | Qwen2ForCausalLM]:
    """A loud HF causal model, Qwen3 or (`family="qwen2"`) Qwen2."""

    def make(seed: int = 1, family: str = "qwen3", **overrides: Any) -> Qwen3ForCausalLM | Qwen2ForCausalLM:
        config_class, model_class = {
            "qwen3": (Qwen3Config, Qwen3ForCausalLM),
            "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        }[family]
        fields = SIZES | {
            "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0},
            "tie_word_embeddings": True,
            "attn_implementation": "eager",
            "bos_token_id": 3,
        }
        model = model_class(config_class(**(fields | overrides)))
        _make_loud(model, seed)
        return model.eval()

    return make


@pytest.fixture
def save_hf(tmp_path: Path, make_hf: Callable[..., Any]) -> Callable[..., tuple[Any, Path]]:
    """Save a loud HF model; returns it with its directory."""

    def save(name: str = "checkpoint", model: Any = None, **overrides: Any) -> tuple[Any, Path]:
        model = make_hf(**overrides) if model is None else model
        model.save_pretrained(tmp_path / name)
        return model, tmp_path / name

    return save


@pytest.fixture
def ids() -> Callable[..., torch.Tensor]:
    def draw(batch: int, length: int, seed: int = 0) -> torch.Tensor:
        return torch.randint(5, 97, (batch, length), generator=torch.Generator().manual_seed(seed))

    return draw
