"""Seeded bugs of the loading of a checkpoint: each must be seen and named by the verification, or refused by name.

What the loading does not change but the run shows (`loading`, `layouts`, `configs`) is for the diagnosis, and so is
what loader and verification read in common: the table of names.
"""

from __future__ import annotations

from dataclasses import replace

from detection.mutants.entry import entry
from detection.mutants.loaders_configs import CONFIGS
from detection.mutants.loaders_files import FILES
from detection.mutants.loaders_models import MODELS
from detection.mutants.loaders_rows import ROWS
from detection.mutants.patch import Patch
from detection.mutants.weight_seeds import everywhere
from qwen3_encdec.weights import mapping as weight_mapping


def _exchanged(patch: Patch) -> None:
    """Before anything is loaded: q_norm's tensor is said to be k_norm's, and the reverse."""
    opposite = {"q_norm": "k_norm", "k_norm": "q_norm"}
    rows = []
    for row in weight_mapping.TABLE:
        name = next((name for name in opposite if name in row.target), "")
        rows.append(replace(row, target=row.target.replace(name, opposite[name])) if name else row)
    patch.setattr(weight_mapping, "TABLE", tuple(rows))


_TABLE = (
    entry(
        "own/loader-table",
        "the table of names exchanges q_norm and k_norm, for the loader and the verification alike",
        _exchanged,
        everywhere("q_norm", "k_norm"),
        "weight.other_tensor",
        ("encdec/ragged",),
    ),
)

MUTANTS = (*MODELS, *ROWS, *FILES, *CONFIGS, *_TABLE)
