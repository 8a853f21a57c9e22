"""An encoder–decoder from a Qwen3 or Qwen2 checkpoint, by its directory or hub id: made, and verified."""

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import AutoConfig
from transformers.configuration_utils import PreTrainedConfig

from .configuration_qwen3_encdec import Qwen3EncoderDecoderConfig
from .modeling_qwen3_encdec import Qwen3ForSeq2SeqLM
from .weights.files import checkpoint_directory, read_tensors, stored_tensors
from .weights.gradient_flow import verify_gradient_flow
from .weights.mapping import layer_tensors
from .weights.problems import Progress
from .weights.qwen3_checkpoint import fill, load_qwen3, open_sources, read_config, unseen
from .weights.sentinel_rows import extended
from .weights.verification import verify_weight_initialization

__all__ = ["Qwen3WeightMapper", "initialize_from_qwen3", "verify_gradient_flow", "verify_weight_initialization"]

_FREE_TO_DIFFER = {"rotate_encoder_keys", "use_cache", "attention_dropout", "initializer_range"}


class Qwen3WeightMapper:
    """A checkpoint and the encoder–decoder that it fills; which tensor goes where is `weight_mapping.TABLE`.

    `device` is where parameters are made that a target model has on the meta device. Every method raises `ValueError`
    when the checkpoint cannot be found or read.
    """

    def __init__(
        self,
        qwen3_model_name_or_path: str | Path = "Qwen/Qwen3-0.6B",
        num_sentinel_tokens: int = 100,
        device: str | torch.device = "cpu",
    ) -> None:
        self.qwen3_model_name_or_path = qwen3_model_name_or_path
        self.num_sentinel_tokens = num_sentinel_tokens
        self.device = device
        self._directory: Path | None = None

    @property
    def directory(self) -> Path:
        """Where the checkpoint is; a hub id is fetched when it is first asked for."""
        self._directory = self._directory or checkpoint_directory(self.qwen3_model_name_or_path)
        return self._directory

    def load_qwen3_weights(self) -> dict[str, torch.Tensor]:
        """The checkpoint's tensors under Hugging Face's names, as they are stored: views of the mapped files."""
        return dict(read_tensors(stored_tensors(self.directory)))

    def get_qwen3_config(self) -> PreTrainedConfig:
        """Hugging Face's config of the checkpoint; `ValueError` where one of its defaults would stand for a field."""
        self.create_encoder_decoder_config()
        config: PreTrainedConfig = AutoConfig.from_pretrained(self.directory)
        return config

    def create_encoder_decoder_config(self) -> Qwen3EncoderDecoderConfig:
        """Ours, sentinels included."""
        return read_config(self.directory, self.num_sentinel_tokens)

    def _extend_embeddings(self, embedding_weight: torch.Tensor, num_sentinel_tokens: int) -> torch.Tensor:
        """`[rows, hidden]` with the sentinels' rows behind them, `[rows + num_sentinel_tokens, hidden]`."""
        return extended(embedding_weight, num_sentinel_tokens)

    def _map_layer_weights(
        self, qwen3_state: Mapping[str, torch.Tensor], layer_idx: int, prefix: str
    ) -> dict[str, torch.Tensor]:
        """A layer's tensors under their names in our `prefix`, "encoder" or "decoder"; `ValueError` if some differ."""
        return layer_tensors(qwen3_state, layer_idx, prefix)

    def map_weights(self, target_model: Qwen3ForSeq2SeqLM, *, progress: Progress = unseen) -> tuple[int, int]:
        """Fill a model, built on the meta device or not, in its own dtypes; `(parameters filled, parameters)`.

        A tied parameter counts once, and the two numbers are equal: `ValueError`, before anything is written, names
        every tensor without a parameter, every parameter without a tensor, and every field of the model's config that
        is not the checkpoint's.
        """
        sources = open_sources(self.directory, None, self.num_sentinel_tokens)
        model_config, config = target_model.config, sources[0].config
        differing = [
            f"{field}: {getattr(model_config, field)!r} in the model, {getattr(config, field)!r} in the checkpoint"
            for field in Qwen3EncoderDecoderConfig.__annotations__
            if field not in _FREE_TO_DIFFER and getattr(model_config, field) != getattr(config, field)
        ]
        if differing:
            raise ValueError(
                f"{self.directory}: the model's config is not the checkpoint's: {'; '.join(differing)}; "
                "build it from create_encoder_decoder_config()"
            )
        filled = fill(target_model, sources, self.device, progress)
        return filled, len(list(target_model.parameters()))


def initialize_from_qwen3(
    model_name_or_path: str | Path,
    num_sentinel_tokens: int = 100,
    device: str | torch.device = "cpu",
    *,
    dtype: torch.dtype | None = None,
    progress: Progress = unseen,
) -> Qwen3ForSeq2SeqLM:
    """The encoder–decoder made of a checkpoint's directory or hub id, in eval mode.

    Both stacks get copies of every layer, the embedding (and an untied head) gets `num_sentinel_tokens` rows more,
    drawn from a seed with the mean and standard deviation of the rows that exist. Weights keep their dtype unless
    `dtype` is given. `ValueError` as `load_qwen3`.
    """
    directory = checkpoint_directory(model_name_or_path)
    return load_qwen3(directory, num_sentinel_tokens=num_sentinel_tokens, dtype=dtype, device=device, progress=progress)
