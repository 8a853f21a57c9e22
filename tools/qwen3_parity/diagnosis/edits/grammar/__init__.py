"""The grammar of edits, as data: on which ops, how the value changes, in which words, how plain that is."""

from collections.abc import Callable, Iterator

from qwen3_parity.diagnosis.edits.edit import Edit, Free
from qwen3_parity.diagnosis.edits.grammar.activations import activations
from qwen3_parity.diagnosis.edits.grammar.added import added
from qwen3_parity.diagnosis.edits.grammar.at_once import at_once
from qwen3_parity.diagnosis.edits.grammar.biases import biases
from qwen3_parity.diagnosis.edits.grammar.blocks import blocks
from qwen3_parity.diagnosis.edits.grammar.constants import constants
from qwen3_parity.diagnosis.edits.grammar.convolutions import convolutions
from qwen3_parity.diagnosis.edits.grammar.crossed import crossed
from qwen3_parity.diagnosis.edits.grammar.elsewhere import elsewhere
from qwen3_parity.diagnosis.edits.grammar.fitted import fitted
from qwen3_parity.diagnosis.edits.grammar.frequencies import frequencies
from qwen3_parity.diagnosis.edits.grammar.fused import fused
from qwen3_parity.diagnosis.edits.grammar.held import held
from qwen3_parity.diagnosis.edits.grammar.layer_types import layer_types
from qwen3_parity.diagnosis.edits.grammar.layouts import layouts
from qwen3_parity.diagnosis.edits.grammar.leaves import leaves
from qwen3_parity.diagnosis.edits.grammar.order import order
from qwen3_parity.diagnosis.edits.grammar.places import places
from qwen3_parity.diagnosis.edits.grammar.pooling import pooling
from qwen3_parity.diagnosis.edits.grammar.post_norms import post_norms
from qwen3_parity.diagnosis.edits.grammar.reads import reads
from qwen3_parity.diagnosis.edits.grammar.repeats import repeats
from qwen3_parity.diagnosis.edits.grammar.rotations import rotations
from qwen3_parity.diagnosis.edits.grammar.shards import shards
from qwen3_parity.diagnosis.edits.grammar.siblings import siblings
from qwen3_parity.diagnosis.edits.grammar.slots import slots
from qwen3_parity.diagnosis.edits.grammar.stretched import stretched
from qwen3_parity.diagnosis.edits.grammar.tails import tails
from qwen3_parity.diagnosis.edits.grammar.unturned import unturned
from qwen3_parity.diagnosis.edits.grammar.values import values
from qwen3_parity.diagnosis.edits.region import Region

PLAIN: tuple[Callable[[Region], Iterator[Edit | Free]], ...] = (
    held,
    pooling,
    constants,
    frequencies,
    stretched,
    rotations,
    unturned,
    siblings,
    activations,
    values,
    at_once,
    biases,
    layer_types,
    crossed,
    post_norms,
    blocks,
    fused,
    layouts,
    repeats,
    convolutions,
    tails,
    shards,
    slots,
    leaves,
    places,
    added,
    order,
    elsewhere,
    fitted,
    reads,
)
"""Tables of edits, the plainest first."""

__all__ = ["PLAIN"]
