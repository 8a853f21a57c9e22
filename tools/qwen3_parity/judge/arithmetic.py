"""What a run may say that it computed in, by name."""

from qwen3_golden import pb

BY_NAME = {
    "float32": pb.ARITHMETIC_F32,
    "bfloat16": pb.ARITHMETIC_BF16,
    "float16": pb.ARITHMETIC_F16,
    "float64": pb.ARITHMETIC_F64,
    "other": pb.ARITHMETIC_OTHER,
}
"""The schema's arithmetics as people say them; "other" is lossy: quantised."""
