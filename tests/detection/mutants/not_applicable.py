"""The rows of the bug catalogue that have no mutant, each with the reason: what becomes of such a bug here."""

from __future__ import annotations

from collections.abc import Mapping

_SAMPLING = "a choice that no case makes: equal largest logits, half precision, rows beyond the tokenizer"
_HALF = "only float16 overflows there, and no case runs in float16"
_PACKED = "the positions of packed sequences are given, no network makes them"
_CRASH = "shapes do not fit: an exception, no numbers"
_T5 = "Qwen3 has no such part: "
_HARNESS = "a fault of the harness, not of a model: harness/test_har_answers.py names the tests of the row"

_BY_REASON: Mapping[str, str] = {
    _SAMPLING: "SMP-09 SMP-12 HED-09 HED-10 T5B-14",
    _HARNESS: " ".join(f"HAR-{number:02}" for number in range(1, 24)),
    _HALF: "MSK-10 MSK-13 NUM-01 NUM-09",
    _PACKED: "POS-12",
    _CRASH: "MSK-05 MRG-16 KVC-12 GQA-06",
    _T5 + "a position bias": "T5B-02 T5B-04 T5B-05 T5B-06",
    _T5 + "post-norm blocks": "RES-10",
    _T5 + "query_pre_attn_scalar": "SCL-09",
    _T5 + "an activation under an old name": "MLP-05",
    "quantised containers are not read": "WLD-22",
}

REASONS: Mapping[str, str] = {row: reason for reason, rows in _BY_REASON.items() for row in rows.split()} | {
    "NRM-08": "at most one bfloat16 unit: 0.4 of the budget of encdec/bfloat16, which is sized by honest kernels",
    "SMX-05": "rows that see nothing are judged for finiteness alone: frameworks differ there",
    "MRG-18": "the same slots as MRG-09",
    "MRG-21": "the same masks as MSK-30",
    "MRG-22": "refused: the model declares that it has no flash attention",
    "T5B-09": "the same logits as HED-02",
    "T5B-10": "the same products as MLP-01 and MLP-04",
    "T5B-12": "needs a cached key that is exactly 0; past lengths that are wrong are POS-04 … POS-10",
    "T5B-13": "the same widths as PRJ-02",
    "EMB-05": "refused: impl/test_impl_inputs_refused.py",
    "WLD-08": "an exception, no numbers; encdec/bfloat16 is a bfloat16 checkpoint that loads",
    "NUM-02": "the same rounding as own/linear-10-bits and own/linear-bfloat16",
    "NUM-04": "equivalent: a sum in another order is honest and must pass",
    "NUM-05": "equivalent for a judge of one run; parity/metamorphic compares a row alone with the row in its batch",
    "NUM-06": "equivalent: more exact than the reference is honest and must pass",
    "NUM-08": "the same roundings as ROP-18, NRM-10 and SMX-02",
    "TKB-09": "vocabularies with byte fallback are refused; read into one without it is own/tokenizer-byte-fallback",
    "TKS-05": "no committed tokenizer adds a token that could be missing; one too many is own/tokenizer-eos-added",
}
"""Row of the bug catalogue to why no mutant stands for it; every row is here or is the name of a mutant."""
