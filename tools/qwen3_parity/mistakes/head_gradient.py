"""Wrong ways back to the projections: QK-norm, the rotation, groups of heads."""

from collections.abc import Mapping

from qwen3_parity.mistakes.gradients import cut
from qwen3_parity.mistakes.grouped_heads import groups
from qwen3_parity.mistakes.hypothesis import Mistakes
from qwen3_parity.mistakes.norm_gradients import by_input
from qwen3_parity.mistakes.rope import rotation

MISTAKES: Mapping[str, Mistakes] = {"head_gradient": Mistakes((by_input, rotation, groups, cut))}
