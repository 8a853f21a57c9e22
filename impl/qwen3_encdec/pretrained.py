"""What the stacks and the whole model have in common as transformers models."""

from typing import Any

import torch
from torch import nn
from transformers import initialization
from transformers.modeling_utils import PreTrainedModel

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig, check_attn_implementation
from .rope import Qwen3RotaryEmbedding


class Qwen3EncoderDecoderPreTrainedModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Flags and initialisation shared by `Qwen3Encoder`, `Qwen3Decoder` and `Qwen3ForSeq2SeqLM`.

    There is no base model between the two stacks and the head, and `base_model` is the model itself, as it is T5's:
    all that such a class would leave out is the head, which is tied, and it would rename every parameter. Each stack
    is a model of its own, which `get_encoder` and `get_decoder` return.
    """

    config_class = Qwen3EncoderDecoderConfig
    config: Qwen3EncoderDecoderConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Qwen3EncoderLayer", "Qwen3DecoderLayer"]  # noqa: RUF012  # an instance variable in transformers
    _skip_keys_device_placement = ["past_key_values", "cache"]  # noqa: RUF012
    _supports_flash_attn = False  # flash attention takes no mask with the encoder's keys beside the decoder's
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _supports_context_parallel = False  # it drops every mask, and the encoder's keys belong to no part of the decoder
    _can_compile_fullgraph = True  # with a static cache, too: transformers' generation tests read it for both

    def set_attn_implementation(
        self, attn_implementation: str | dict[str, str], allow_all_kernels: bool = False
    ) -> None:
        """As transformers'; both stacks share one config, so `ValueError` for a dictionary that names one of them."""
        check_attn_implementation(attn_implementation)
        super().set_attn_implementation(attn_implementation, allow_all_kernels)

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Embedding:
        """As transformers', but `ValueError` where rows of sentinels would be cut off; new rows stand behind them.

        A tokenizer's length does not count the padding rows, so `len(tokenizer)` is no size to resize to.
        """
        self._check_sentinels_stay(new_num_tokens, pad_to_multiple_of or 1)
        embedding = super().resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        assert isinstance(embedding, nn.Embedding)
        if not self.config.num_sentinel_tokens:  # their first row would stay behind a smaller vocabulary's end
            self.config.first_sentinel_id = embedding.num_embeddings
        return embedding

    def _check_sentinels_stay(self, new_num_tokens: int | None, unit: int) -> None:
        first, count = self.config.sentinel_start, self.config.num_sentinel_tokens
        needed = first + count
        if new_num_tokens is not None and count and -(-new_num_tokens // unit) * unit < needed:
            raise ValueError(
                f"resize_token_embeddings({new_num_tokens}) would cut off sentinel rows: the {count} sentinels are "
                f"rows {first} … {needed - 1}. "
                f"Expected at least {needed}; a tokenizer's length leaves the padding rows out, its largest id + 1 "
                "does not"
            )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)  # type: ignore[no-untyped-call]
        if isinstance(module, Qwen3RotaryEmbedding):  # inv_freq is in no checkpoint: a model built on meta has garbage
            initialization.copy_(module.inv_freq, module.frequencies())


def build_rotary(config: Qwen3EncoderDecoderConfig) -> Qwen3RotaryEmbedding:
    """The RoPE module of a stack."""
    parameters: dict[str, Any] | None = config.rope_parameters
    return Qwen3RotaryEmbedding(
        config.head_dim, config.max_position_embeddings, base=config.rope_theta, rope_parameters=parameters
    )
