"""Where the reference computes an op that the specification judges: the line of transformers' own model."""

from __future__ import annotations

from collections.abc import Mapping

from qwen3_golden import Place, Recording
from qwen3_parity.blame.values import Values
from qwen3_parity.diagnosis.explained import REFERENCE, Explained
from qwen3_parity.diagnosis.findings import Finding
from qwen3_parity.slices.source import line_of, place_of, text_of

_CODE: Mapping[str, str] = {
    "position_ids": "position_ids = ",
    "cos": "cos = emb.cos()",
    "sin": "sin = emb.sin()",
    "embedding": "self.embed_tokens(",
    "rms_norm": "torch.rsqrt(",
    "head_norm": "torch.rsqrt(",
    "rope": "q_embed = ",
    "cache": "past_key_values.update(",
    "mask": "create_causal_mask(",
    "scores": "torch.matmul(query",
    "softmax": "nn.functional.softmax(",
    "context": "torch.matmul(attn_weights",
    "swiglu": "self.act_fn(",
    "residual": "residual + hidden_states",
}
"""By op, what the line has that computes it in every dense decoder of transformers."""
_BEHIND: Mapping[str, str] = {"output": "self.mlp("}
"""By the last part of a place's name, what its line stands behind, where an earlier place has the same line."""
_STRETCHED: Mapping[str, str] = {
    "yarn": "inv_freq_interpolation * (1",
    "llama3": "inv_freq_llama = torch.where(is_medium",
}
"""Stretched frequencies stand in a file of their own, a function for each type."""
_LINES = 6
_OF_ONE_STACK = frozenset({"position_ids", "mask"})
"""What a case with an encoder makes by itself: no model of transformers has merged attention."""


def reference_lines(explained: Explained, values: Values, golden: Recording) -> list[Finding]:
    """The lines that make what is wrong, the last one first: of a known mistake its own, else all of the place's.

    Each as "modeling_qwen3.py:62 in forward: …"; none where the installed transformers is not the golden's.
    """
    first, others = explained.fault.place, explained.fault.others
    known = explained.explanations[0].place.split(", ") if explained.is_known else [first, *reversed(others)]
    places = [place for name in known if (place := values.place(name.replace("{layer}", "0"))) is not None]
    if golden.get("input.encoder_attention_mask", 0) is not None:
        places = [place for place in places if place.op not in _OF_ONE_STACK]
    lines = [line for line in dict.fromkeys(_line(place, golden) for place in places) if line]
    findings = [Finding(REFERENCE, line, 0.5) for line in lines[:_LINES]]
    if len(lines) > _LINES:
        findings.append(Finding(REFERENCE, f"and {len(lines) - _LINES} more lines: record what is between", 0.1))
    return findings


def _line(place: Place, golden: Recording) -> str:
    config, code, function = golden.case.config, _CODE.get(place.op, ""), ""
    file, leaf = f"modeling_{config.model_type}.py", place.name.rpartition(".")[2].removeprefix("encoder_")
    if place.op == "rope" and leaf == "k_rope":
        code = "k_embed = "
    elif place.op == "linear":
        code = f"self.{'lm_head' if leaf == 'logits' else leaf}("
    elif place.op == "inv_freq":
        function, code = "compute_default_rope_parameters", "inv_freq = 1.0 /"
        if config.HasField("rope_scaling"):
            scaling = config.rope_scaling.rope_type
            file, function, code = "modeling_rope_utils.py", f"_compute_{scaling}_parameters", _STRETCHED[scaling]
    line = line_of(file, code, golden, function, _BEHIND.get(leaf, "")) if code else None
    return "" if line is None else f"{place_of(line)}: {text_of(line, golden)}"
