"""The contract: the schema of golden files, the taps' names, reading and writing. NumPy and protobuf, no torch."""

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.bug_table import BUG_ID, bug, bugs
from qwen3_golden.dtypes import Array, to_bfloat16, to_float32
from qwen3_golden.errors import ParityError, refusals
from qwen3_golden.reader import read, verify
from qwen3_golden.recording import Recording, Tensor, minor_of
from qwen3_golden.stages import STAGES
from qwen3_golden.taps import (
    ENCODERS,
    GOLDEN_ROOT,
    TABLES_ROOT,
    Network,
    Place,
    kept_whole,
    last_rows,
    pattern_of,
    place,
    selected,
    table,
)
from qwen3_golden.weights import is_exported, part_name, read_parts, verify_weights
from qwen3_golden.writer import Writer, tensor, write

__all__ = [
    "BUG_ID",
    "ENCODERS",
    "GOLDEN_ROOT",
    "STAGES",
    "TABLES_ROOT",
    "Array",
    "Network",
    "ParityError",
    "Place",
    "Recording",
    "Tensor",
    "Writer",
    "bug",
    "bugs",
    "is_exported",
    "kept_whole",
    "last_rows",
    "minor_of",
    "part_name",
    "pattern_of",
    "pb",
    "place",
    "read",
    "read_parts",
    "refusals",
    "selected",
    "table",
    "tensor",
    "to_bfloat16",
    "to_float32",
    "verify",
    "verify_weights",
    "write",
]
