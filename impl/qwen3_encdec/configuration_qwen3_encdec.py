"""Configuration of the Qwen3 encoder–decoder."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from transformers.activations import ACT2FN
from transformers.configuration_utils import PreTrainedConfig

from .config_bounds import check_bounds
from .qwen3_source import resolve_rope_parameters, target_fields
from .rope import DEFAULT_ROPE_THETA

_ROPE_KEYS = ("rope_theta", "rope_scaling", "original_max_position_embeddings", "partial_rotary_factor")
LAYER_TYPES = ("full_attention", "sliding_attention")
_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
)
_BOUNDED = (*_SIZES, "rms_norm_eps")


def _is_number(value: object) -> bool:
    """Whether it is one in JSON: text in scientific notation is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_attn_implementation(value: str | dict[str, str] | None) -> None:
    """`ValueError` for a dictionary with a stack of its own; transformers would skip the entry without a word."""
    if isinstance(value, dict) and (unknown := sorted(value.keys() - {""})):
        raise ValueError(f"attn_implementation names {unknown}; both stacks share one: expected its name")


class Qwen3EncoderDecoderConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes and switches of both stacks, which share one depth.

    `vocab_size` counts the sentinel rows; sentinel i is row `first_sentinel_id + i`, by default the last ones (they
    stay where they are when an embedding grows behind them). `attention_bias` is the bias of q, k and v,
    `attention_out_bias` that of o. `rope_theta` (keyword or inside `rope_parameters`) defaults to 1e6 as on Qwen3;
    `rope_parameters` may stretch the positions by YaRN, and holds every number of it once the config is built.
    `sliding_window` limits the layers that `layer_types` calls `sliding_attention`. `rotate_encoder_keys` says whether
    merged attention applies RoPE to the encoder's keys, at the encoder's own positions. Impossible combinations raise
    `ValueError`.
    """

    model_type = "qwen3_encdec"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values", "cache"]

    vocab_size: int = 151936 + 100
    hidden_size: int = 1024
    intermediate_size: int = 3072
    num_hidden_layers: int = 28
    num_attention_heads: int = 16
    num_key_value_heads: int | None = 8
    head_dim: int = 128
    hidden_act: str = "silu"
    max_position_embeddings: int = 40960
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    tie_word_embeddings: bool = True
    rope_parameters: dict[str, Any] | None = None
    attention_bias: bool = False
    attention_out_bias: bool = False
    attention_dropout: float = 0.0
    use_qk_norm: bool = True
    layer_types: list[str] | None = None
    sliding_window: int | None = None
    num_sentinel_tokens: int = 100
    first_sentinel_id: int | None = None
    rotate_encoder_keys: bool = True
    is_encoder_decoder: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Fill what depends on other fields, then check; HF's own validation misses some of it."""
        source = {"rope_parameters": self.rope_parameters, "max_position_embeddings": self.max_position_embeddings}
        source.update({key: kwargs.pop(key) for key in _ROPE_KEYS if key in kwargs})
        self.rope_parameters = resolve_rope_parameters(source, default_theta=DEFAULT_ROPE_THETA)
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        self._check_sizes()
        check_bounds({name: getattr(self, name) for name in _BOUNDED} | {"rope_parameters": self.rope_parameters})
        self._check_layer_types()
        if self.hidden_act not in ACT2FN:
            raise ValueError(f"hidden_act = {self.hidden_act!r} is not a known activation")
        super().__post_init__(**kwargs)  # type: ignore[no-untyped-call]

    def _check_sizes(self) -> None:
        for name in _SIZES:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} = {value!r} must be a positive integer")
        if self.num_attention_heads % self.kv_heads:
            raise ValueError(
                f"num_attention_heads = {self.num_attention_heads} must be a multiple of "
                f"num_key_value_heads = {self.kv_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim = {self.head_dim} must be even: RoPE rotates pairs")
        if not isinstance(self.num_sentinel_tokens, int) or not 0 <= self.num_sentinel_tokens <= self.vocab_size:
            raise ValueError(
                f"num_sentinel_tokens = {self.num_sentinel_tokens!r} must lie in 0 … vocab_size = {self.vocab_size} "
                "(vocab_size counts the sentinels)"
            )
        if self.first_sentinel_id is None:
            self.first_sentinel_id = self.vocab_size - self.num_sentinel_tokens
        if not 0 <= self.first_sentinel_id <= self.vocab_size - self.num_sentinel_tokens:
            raise ValueError(
                f"first_sentinel_id = {self.first_sentinel_id}: {self.num_sentinel_tokens} sentinels from there on do "
                f"not fit vocab_size = {self.vocab_size}"
            )
        if not _is_number(self.rms_norm_eps) or not self.rms_norm_eps > 0:
            raise ValueError(f"rms_norm_eps = {self.rms_norm_eps!r} must be a positive number")
        if not _is_number(self.attention_dropout) or not 0.0 <= self.attention_dropout < 1.0:
            raise ValueError(f"attention_dropout = {self.attention_dropout!r} must be a number in [0, 1)")

    def _check_layer_types(self) -> None:
        window = self.sliding_window
        if window is not None and (not isinstance(window, int) or isinstance(window, bool) or window < 1):
            raise ValueError(f"sliding_window = {window!r} must be a positive integer or None")
        if self.layer_types is None:
            if window is not None:
                raise ValueError(
                    f"sliding_window = {window} needs layer_types to say which layers are sliding_attention"
                )
            self.layer_types = ["full_attention"] * self.num_hidden_layers
        if unknown := sorted({str(name) for name in self.layer_types} - set(LAYER_TYPES)):
            raise ValueError(f"layer_types has unknown entries {unknown}; expected {' or '.join(LAYER_TYPES)}")
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries, num_hidden_layers = {self.num_hidden_layers}"
            )
        if "sliding_attention" in self.layer_types and window is None:
            raise ValueError("layer_types has sliding_attention layers but sliding_window = None")

    @property
    def _attn_implementation(self) -> str | None:
        name: str | None = self._attn_implementation_internal
        return name

    @_attn_implementation.setter
    def _attn_implementation(self, value: str | dict[str, str] | None) -> None:
        check_attn_implementation(value)
        PreTrainedConfig._attn_implementation.fset(self, value)  # type: ignore[attr-defined]

    @property
    def rope(self) -> Mapping[str, Any]:
        """`rope_parameters`, which are never None once the config is built."""
        assert self.rope_parameters is not None
        return self.rope_parameters

    @property
    def rope_theta(self) -> float:
        """The base of the rotary frequencies."""
        theta: float = self.rope["rope_theta"]
        return theta

    @rope_theta.setter
    def rope_theta(self, value: float) -> None:
        self.rope_parameters = resolve_rope_parameters({"rope_parameters": {**self.rope, "rope_theta": value}})

    @property
    def sentinel_start(self) -> int:
        """`first_sentinel_id`, which is never None once the config is built."""
        assert self.first_sentinel_id is not None
        return self.first_sentinel_id

    @property
    def padding_idx(self) -> int | None:
        """The row that looking it up does not train: `pad_token_id`, as in HF's Qwen3 and T5Gemma 2.

        None where that is no row, and where padding also starts every target (as in HF's T5, which has no such row).
        """
        pad = self.pad_token_id
        if pad is None or not 0 <= pad < self.vocab_size or pad == self.decoder_start_token_id:
            return None
        return pad

    @property
    def kv_heads(self) -> int:
        """`num_key_value_heads`, which is never None once the config is built."""
        assert self.num_key_value_heads is not None
        return self.num_key_value_heads

    def layer_type(self, layer_idx: int) -> str:
        """`full_attention` or `sliding_attention`."""
        assert self.layer_types is not None
        return self.layer_types[layer_idx]

    def window(self, layer_type: str) -> int | None:
        """The sliding window of a layer type, None where attention is full."""
        return self.sliding_window if layer_type == "sliding_attention" else None

    @classmethod
    def from_qwen3_config(
        cls, qwen3_config: PreTrainedConfig | Mapping[str, Any], num_sentinel_tokens: int = 100, **overrides: Any
    ) -> Self:
        """The encoder–decoder made from a HF `Qwen3Config` or `Qwen2Config` (or its dictionary).

        Raises `ValueError` when the source lacks a size, `head_dim` (Qwen3) or `rope_theta`: these have no honest
        default. `overrides` are further fields of this class.
        """
        source = qwen3_config if isinstance(qwen3_config, Mapping) else qwen3_config.to_dict()
        return cls(**(target_fields(source, num_sentinel_tokens) | overrides))
