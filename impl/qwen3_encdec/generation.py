"""What `generate` does differently for merged attention: prefill behind a cache or in chunks, caches, checks."""

import copy
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache, StaticCache
from transformers.generation.utils import GenerationMixin

from .cache_name import CACHE
from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .inputs import check_generation_inputs
from .merged_cache import merged_layers


class Qwen3GenerationMixin(GenerationMixin):
    """HF's `generate` for `Qwen3ForSeq2SeqLM`."""

    config: Qwen3EncoderDecoderConfig

    @staticmethod
    def create_masks_for_generate(attention_mask: torch.Tensor | None, **kwargs: Any) -> torch.Tensor | None:
        """Leave the 2-D mask alone: the decoder builds its own mask from it at every step, for every kind of cache."""
        return attention_mask

    def _prepare_model_inputs(self, inputs: Any, bos_token_id: Any, model_kwargs: dict[str, Any]) -> Any:
        """As HF's; `ValueError` for what is no tensor or of another batch, which `generate` itself stumbles over."""
        prepared = super()._prepare_model_inputs(inputs, bos_token_id, model_kwargs)  # type: ignore[misc]
        check_generation_inputs(prepared[0], str(prepared[1]), model_kwargs)
        return prepared

    def _prefill(
        self, input_ids: torch.Tensor, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """HF's prefill, except for what the cache holds already and for chunks, where HF takes the encoder's mask.

        `input_ids` are all decoder ids, those in the cache included; `ValueError` when there is none beyond them.
        """
        model: Any = self  # typed as some other class in HF's mixin
        prefill: Any = super()._prefill  # type: ignore[misc]
        cache, size = model_kwargs.get(CACHE), generation_config.prefill_chunk_size
        past = 0 if cache is None else int(cache.get_seq_length())
        if not past and size is None:
            return prefill(input_ids, generation_config, model_kwargs, *args, **kwargs)
        length = input_ids.shape[1]
        mask = model_kwargs.get("decoder_attention_mask")
        if mask is None:
            mask = model_kwargs["decoder_attention_mask"] = torch.ones_like(input_ids)
        if mask.shape[1] == length <= past:
            raise ValueError(f"decoder_input_ids has length {length}, past_key_values holds {past}; pass ids beyond it")
        for end in range(past + (size or length), length, size or length):
            chunk_kwargs = model_kwargs | {"decoder_attention_mask": mask[:, :end]}
            model(**model.prepare_inputs_for_generation(input_ids[:, :end], next_sequence_length=size, **chunk_kwargs))
        whole = copy.copy(generation_config)
        whole.prefill_chunk_size = None
        return prefill(input_ids, whole, model_kwargs, *args, **kwargs)

    def _prepare_cache_for_generation(  # type: ignore[override]  # declared bool there, returns nothing
        self,
        generation_config: Any,
        model_kwargs: dict[str, Any],
        generation_mode: Any,
        batch_size: int,
        max_cache_length: int,
    ) -> None:
        """Make the caches HF would make, except that the half with the encoder's keys is never a sliding one."""
        brought = model_kwargs.get(CACHE) is not None
        super()._prepare_cache_for_generation(  # type: ignore[misc]
            generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
        )
        cache = model_kwargs.get(CACHE)
        if brought or not isinstance(cache, EncoderDecoderCache):
            return
        ours = cache.self_attention_cache
        if type(ours) is DynamicCache and not ours.offloading:
            merged_layers(ours)
        theirs: Cache = DynamicCache(offloading=cache.cross_attention_cache.offloading)
        if isinstance(cache.cross_attention_cache, StaticCache):
            full = type(self.config).from_dict(self.config.to_dict() | _all_layers_full(self.config))
            theirs = StaticCache(config=full, max_cache_len=model_kwargs["encoder_outputs"][0].shape[1])
        model_kwargs[CACHE] = EncoderDecoderCache(ours, theirs)


def _all_layers_full(config: Qwen3EncoderDecoderConfig) -> dict[str, Any]:
    return {"layer_types": ["full_attention"] * config.num_hidden_layers, "sliding_window": None}
