"""The families of networks that are recorded: whose classes run them, and what their config.json does not say."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Family:
    """A family of dense decoders with Hugging Face's module names, by the `model_type` of their config.json.

    `module` and `prefix` name Hugging Face's classes: `transformers.models.<module>`, `<prefix>Config`. `biases` on q,
    k and v, and on o: as `attention_bias` says, or the family's own. `special_ids` are the published models' beginning
    and end of a text.
    """

    module: str
    prefix: str
    use_qk_norm: bool = False
    biases: tuple[bool, bool] | None = None
    states_head_dim: bool = False
    special_ids: tuple[int, int] = (0, 0)

    def hf(self, name: str) -> Any:
        """Hugging Face's class of that name: "Config", "Model", "ForCausalLM"."""
        return getattr(import_module(f"transformers.models.{self.module}"), f"{self.prefix}{name}")

    def eager_attention(self) -> Any:
        """Hugging Face's own eager attention of the family."""
        modeling = import_module(f"transformers.models.{self.module}.modeling_{self.module}")
        return modeling.eager_attention_forward

    def biases_of(self, attention_bias: bool) -> tuple[bool, bool]:
        """Whether q, k and v have biases, and whether o has one."""
        return self.biases or (attention_bias, attention_bias)


_QWEN_IDS = (151643, 151645)
"""<|endoftext|> and <|im_end|> of Qwen's tokenizers."""

FAMILIES = {
    "qwen3": Family("qwen3", "Qwen3", use_qk_norm=True, states_head_dim=True, special_ids=_QWEN_IDS),
    "qwen2": Family("qwen2", "Qwen2", biases=(True, False), special_ids=_QWEN_IDS),
    "llama": Family("llama", "Llama", special_ids=(128000, 128001)),
}
"""By model_type."""
