"""What a seeded bug is, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qwen3_golden import STAGES

Seed = Callable[[Any], None]
"""Puts the wrong code into what is about to run: a `Patch` of the network, a `ByteLevelTokenizer`, a `Loading`."""

REFUSED = "refused"
"""What is wrong of a checkpoint that the loader itself must not accept."""


@dataclass(frozen=True)
class Mutant:
    """One bug, and what a judge should say of it.

    `name` is the id of the bug catalogue where it stands there ("ROP-01", with variants "ROP-22/hidden"), "own/…"
    otherwise; `says` the wrong code in a few words; `wrong` the taps that are wrong on their own inputs, exactly,
    without stack and layer ("merged_attn.k_rope", "mlp.act"; whole names outside layers: "decoder.norm"), or the stages
    of a tokenizer ("merges"), or the checks of a loaded model that must fail ("mlp_match"; `REFUSED` where the loader
    must); `named` the ids of the hypotheses that are a right diagnosis (none: the run must be refused), of a loader
    parts of the messages that are; `cases` those that should show it, the best first: goldens, or checkpoints.
    """

    name: str
    says: str
    seed: Seed
    wrong: frozenset[str]
    named: frozenset[str]
    cases: tuple[str, ...]

    @property
    def of_tokenizer(self) -> bool:
        """Whether it is seeded in the tokenizer."""
        return bool(self.wrong) and self.wrong <= set(STAGES)

    @property
    def of_weights(self) -> bool:
        """Whether it is seeded in the loading of a checkpoint."""
        from qwen3_encdec.weights.fault import CHECKS

        return bool(self.wrong) and self.wrong <= {*CHECKS, REFUSED}


def words(text: str) -> frozenset[str]:
    """The words of a text, for `wrong` and `named`."""
    return frozenset(text.split())


def attention(text: str) -> frozenset[str]:
    """Taps of both stacks' attention; what only the merged one has (caches, encoder_…) in the decoder alone."""
    merged = {f"merged_attn.{name}" for name in text.split()}
    decoupled = {f"self_attn.{name}" for name in text.split() if not name.startswith(("cache_", "encoder_"))}
    return frozenset(merged | decoupled)
