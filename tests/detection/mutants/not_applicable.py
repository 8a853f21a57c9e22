"""The rows of the bug catalogue that have no mutant, each with the reason: what becomes of such a bug here."""

from __future__ import annotations

from collections.abc import Mapping

_SAMPLING = "a choice that no case makes: equal largest logits, half precision, rows beyond the tokenizer"
_HALF = "only float16 overflows there, and no case runs in float16"
_PACKED = "the positions of packed sequences are given, no network makes them"
_CRASH = "shapes do not fit: an exception, no numbers"
_T5 = "Qwen3 has no such part: "
_RESTATES = "it restates an op or a stage, seeds derived from the library of mistakes took its place: "
_HARNESS = "a fault of the harness, not of a model: harness/test_har_answers.py names the tests of the row"

_BY_REASON: Mapping[str, str] = {
    _RESTATES + "context": "GQA-01 PRJ-05",
    _RESTATES + "context scores": "GQA-02 GQA-04",
    _RESTATES + "cos sin": "ROP-05 ROP-13 ROP-16 ROP-17 ROP-18 ROP-20 ROP-21 ROP-33",
    _RESTATES + "embedding": "EMB-02",
    _RESTATES + "inv_freq": "ROP-09 ROP-22",
    _RESTATES + "linear": "HED-12 MLP-09 PRJ-01 PRJ-06 PRJ-08 T5B-08",
    _RESTATES + "mask": "MRG-05 MRG-06 MRG-08 MSK-01 MSK-02 MSK-06 MSK-14 MSK-20 MSK-21 MSK-26 MSK-28 MSK-29",
    _RESTATES + "next_token_probs": "SMP-01 SMP-02 SMP-04 SMP-05",
    _RESTATES + "position_ids": "ROP-29",
    _RESTATES + "rms_norm head_norm": "NRM-01 NRM-04 NRM-05 NRM-06 NRM-09 NRM-10 QKN-01 QKN-09 QKN-10",
    _RESTATES + "rope": "ROP-01 ROP-06 ROP-26 ROP-32",
    _RESTATES + "scores": "SCL-01 SCL-02 SCL-04 SCL-06 SCL-08",
    _RESTATES + "softmax": "GQA-08 GQA-09 MRG-02 MSK-09 MSK-12 SMX-01 SMX-02 SMX-04 SMX-06 SMX-08 T5B-01",
    _RESTATES + "swiglu": "MLP-02 MLP-04 MLP-06 MLP-10",
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

OF_TEXT: Mapping[str, str] = {
    "TKS-01": "segments.added_as_text",
    "TKS-06": "segments.lstrip segments.rstrip segments.strip segments.single_word",
    "TKS-08": "segments.shortest_first",
    "TKS-10": "segments.lstrip segments.rstrip normalized.spaces_collapsed normalized.prefix_space_if_none",
    "TKS-14": "normalized.nfkc normalized.nfd normalized.nfkd normalized.accents_dropped",
    "TKS-17": "segments.user_defined_as_text",
    "TOK-01": "pre_tokens.missing",
    "TOK-04": "pre_tokens.no_look_ahead",
    "TOK-05": "pre_tokens.contractions_case pre_tokens.curly_apostrophe pre_tokens.no_contractions",
    "TOK-06": "pre_tokens.ascii_letters pre_tokens.word_characters pre_tokens.marks_are_letters "
    "pre_tokens.decimal_digits pre_tokens.ascii_digits",
    "TOK-09": "normalized.prefix_space normalized.stripped normalized.stripped_right symbols.stripped",
    "TOK-10": "symbols.surrogate_halves symbols.surrogates_replaced pre_tokens.utf16_units pre_tokens.utf16_bytes",
    "TKM-01": "merges.missing",
    "TKM-06": "merges.missing",
    "TKM-09": "merges.first_only merges.not_refreshed",
    "TKM-10": "pre_tokens.lines pre_tokens.missing",
    "TKB-01": "symbols.characters symbols.latin1 symbols.utf16",
    "TKB-04": "merges.raw_bytes",
    "TKB-10": "decoded.cleaned_up decoded.skip_ignored decoded.all_added_skipped decoded.always_skipped",
}
"""Bugs of tokenizers that are a stage's known mistakes, which seed themselves: their names in the library."""

REASONS: Mapping[str, str] = {
    **{row: reason for reason, rows in _BY_REASON.items() for row in rows.split()},
    **{row: f"{_RESTATES}{names}" for row, names in OF_TEXT.items()},
    "NRM-08": "at most one bfloat16 unit: 0.4 of the budget of encdec/bfloat16, which is sized by honest kernels",
    "SMX-05": "rows that see nothing are judged for finiteness alone: frameworks differ there",
    "MRG-18": "the same slots as MRG-09",
    "MRG-21": "the same masks as MSK-30",
    "MRG-22": "refused: the model declares that it has no flash attention",
    "T5B-09": "the same logits as HED-02",
    "T5B-10": "the same products as MLP-01 and MLP-04",
    "T5B-12": "needs a cached key that is exactly 0; past lengths that are wrong are POS-04 … POS-10",
    "T5B-13": "the same widths as PRJ-02",
    "EMB-05": "refused: impl/test_inputs_refused.py",
    "WLD-08": "an exception, no numbers; encdec/bfloat16 is a bfloat16 checkpoint that loads",
    "NUM-02": f"{_RESTATES}linear",
    "NUM-04": "equivalent: a sum in another order is honest and must pass",
    "NUM-05": "equivalent for a judge of one run; parity/metamorphic compares a row alone with the row in its batch",
    "NUM-06": "equivalent: more exact than the reference is honest and must pass",
    "NUM-08": "the same roundings as ROP-18, NRM-10 and SMX-02",
    "TKB-09": "vocabularies with byte fallback are refused; read into one without it is own/tokenizer-byte-fallback",
    "TKS-05": "no committed tokenizer adds a token that could be missing; one too many is own/tokenizer-eos-added",
}
"""Row of the bug catalogue to why no mutant stands for it; every row is here or is the name of a mutant."""
