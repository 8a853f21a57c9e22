"""What the verification of an initialised model can find wrong."""

from dataclasses import dataclass

CHECKS = (
    "encoder_attention_match",  # q, k, v, o with their biases, q_norm and k_norm, of every layer
    "decoder_attention_match",
    "mlp_match",  # of both stacks
    "norms_match",  # before attention, before the MLP, and the final one, of both stacks
    "head_match",  # the rows of lm_head that the source has
    "embedding_extended",  # as many rows as the source's vocabulary and the sentinels
    "embeddings_tied",  # every member is one piece of memory, the head where the config ties it and only there
    "original_embeddings_preserved",
    "sentinel_rows_match_statistics",
    "sentinel_rows_seeded",  # bit for bit what the seed draws
    "stacks_share_no_storage",
    "config_matches",  # fields, and what the modules use
    "every_parameter_checked",
)
"""The keys of `verify_weight_initialization`."""


@dataclass(frozen=True)
class WeightFault:
    """One thing that is wrong with one parameter, or with the model."""

    name: str
    """Our parameter, or what was checked."""
    source: str
    """Hugging Face's name of it, "" where there is none."""
    check: str
    """The key of `CHECKS` that it belongs to."""
    says: str
    """The mistake in words, with the place and both values where there are some."""

    def __str__(self) -> str:
        origin = f" (from {self.source})" if self.source else ""
        return f"{self.check}: {self.name}{origin}: {self.says}"
