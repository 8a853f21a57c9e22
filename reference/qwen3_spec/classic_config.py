"""What the specification needs to know of a classic Transformer encoder."""

from dataclasses import dataclass

from qwen3_spec.config import ACTIVATIONS, FULL_ATTENTION, SpecConfig
from qwen3_spec.site import Site


@dataclass(frozen=True)
class ClassicConfig(SpecConfig):
    """Sizes and switches of the encoder of Vaswani et al. 2017, with learned positions.

    The fields of `SpecConfig` that it has (every head has its own keys and values) and: `norm_first`, LayerNorm before
    each branch and behind the last layer, otherwise behind each sum; `layer_norm_eps`; `scale_embeddings`, whether
    token embeddings are multiplied by the root of hidden_size; `starts_with_hidden_states`, whether it has no
    embeddings. `rms_norm_eps` and `rope_theta` mean nothing here. Raises `ValueError` naming the fields when no network
    can have them.
    """

    norm_first: bool = True
    layer_norm_eps: float = 1e-5
    scale_embeddings: bool = True
    starts_with_hidden_states: bool = False

    def __post_init__(self) -> None:
        """Refuse what no encoder can be built from; an odd head_dim is nothing special without RoPE."""
        object.__setattr__(self, "layer_types", (FULL_ATTENTION,) * self.num_hidden_layers)
        if self.num_attention_heads < 1 or self.head_dim * self.num_attention_heads != self.hidden_size:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} × head_dim {self.head_dim} is not "
                f"hidden_size {self.hidden_size}"
            )
        if self.num_key_value_heads != self.num_attention_heads:
            raise ValueError(
                f"num_key_value_heads {self.num_key_value_heads} is not num_attention_heads {self.num_attention_heads}"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(f"hidden_act {self.hidden_act!r} is not one of {ACTIVATIONS}")
        if not self.layer_norm_eps >= 0:
            raise ValueError(f"layer_norm_eps {self.layer_norm_eps} is negative")

    @property
    def embedding_scale(self) -> float:
        """What token embeddings are multiplied by."""
        return float(self.hidden_size**0.5) if self.scale_embeddings else 1.0


def classic_config(site: Site) -> ClassicConfig:
    """The configuration of a classic encoder's site."""
    assert isinstance(site.config, ClassicConfig)
    return site.config
