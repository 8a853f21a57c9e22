"""What the specification needs to know of a Qwen3 or Qwen2 configuration."""

from dataclasses import dataclass

from qwen3_spec.rope_scaling import RopeScaling

FULL_ATTENTION = "full_attention"
SLIDING_ATTENTION = "sliding_attention"
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu")


@dataclass(frozen=True)
class SpecConfig:
    """Sizes and switches of both stacks, under Hugging Face's names.

    `layer_types` has one entry per layer; empty means full attention everywhere. `attention_bias` adds biases to q, k
    and v, `attention_out_bias` to o (Qwen3's own `attention_bias` means both, Qwen2 has the first alone).
    `rotate_encoder_keys`: whether merged attention rotates the encoder's keys at the encoder's positions. `rope_theta`,
    `rope_scaling` (None: plain RoPE) and `tie_word_embeddings` are carried for whoever builds tables and weights: the
    model is given both.
    Raises `ValueError` naming the fields when the combination is impossible.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rms_norm_eps: float
    rope_theta: float
    hidden_act: str = "silu"
    attention_bias: bool = False
    attention_out_bias: bool = False
    use_qk_norm: bool = True
    layer_types: tuple[str, ...] = ()
    sliding_window: int | None = None
    rotate_encoder_keys: bool = True
    tie_word_embeddings: bool = True
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        """Fill in `layer_types` and refuse what no model can be built from."""
        if not self.layer_types:
            object.__setattr__(self, "layer_types", (FULL_ATTENTION,) * self.num_hidden_layers)
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types has {len(self.layer_types)} entries, num_hidden_layers is {self.num_hidden_layers}"
            )
        unknown = set(self.layer_types) - {FULL_ATTENTION, SLIDING_ATTENTION}
        if unknown:
            raise ValueError(
                f"layer_types names {sorted(unknown)}, known are {FULL_ATTENTION!r} and {SLIDING_ATTENTION!r}"
            )
        if SLIDING_ATTENTION in self.layer_types and self.sliding_window is None:
            raise ValueError(f"layer_types has {SLIDING_ATTENTION!r} but sliding_window is None")
        if self.num_key_value_heads < 1 or self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim {self.head_dim} is odd: RoPE rotates pairs of channels")
        if self.rope_scaling is not None and self.rope_theta <= 1:
            raise ValueError(f"rope_theta {self.rope_theta} is not above 1: rope_scaling counts in its powers")
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(f"hidden_act {self.hidden_act!r} is not one of {ACTIVATIONS}")

    @property
    def attention_factor(self) -> float:
        """What cos and sin are multiplied by; 1 in plain RoPE."""
        return 1.0 if self.rope_scaling is None else self.rope_scaling.attention_factor

    def window(self, layer: int) -> int | None:
        """The sliding window of `layer` in slots, or None where attention is full."""
        return self.sliding_window if self.layer_types[layer] == SLIDING_ATTENTION else None
