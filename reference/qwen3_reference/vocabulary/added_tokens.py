"""The third committed tokenizer, `tiny-added`: `tiny` with added tokens that are not ASCII and have each flag once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from qwen3_reference.vocabulary.files import refuse_existing

FLAGS = ("lstrip", "normalized", "rstrip", "single_word", "special")
ADDED: dict[str, tuple[str, ...]] = {
    "«début»": ("special",),
    "café☕": ("normalized",),
    "→→": ("lstrip",),
    "←←": ("rstrip", "special"),
    "été": ("single_word",),
    "両側": ("lstrip", "rstrip"),
    "naïve": ("normalized", "single_word"),
}
"""Content to the flags that are set; ids follow on those of `tiny`."""


def _entry(content: str) -> dict[str, Any]:
    return {"content": content, **{flag: flag in ADDED[content] for flag in FLAGS}}


def write_added(tiny: Path, out: Path) -> None:
    """`out` from the committed `tiny`; `ParityError` when it exists."""
    refuse_existing(out)
    whole, config = (json.loads((tiny / f"tokenizer{name}.json").read_text("utf-8")) for name in ("", "_config"))
    first = 1 + max(one["id"] for one in whole["added_tokens"])
    entries = {first + index: _entry(content) for index, content in enumerate(ADDED)}
    whole["added_tokens"] += [{"id": number, **entry} for number, entry in entries.items()]
    config["added_tokens_decoder"] |= {str(number): entry for number, entry in entries.items()}
    out.mkdir(parents=True)
    for name, content in (("tokenizer.json", whole), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, indent=2 if name == "tokenizer_config.json" else None)
        (out / name).write_text(text + "\n", encoding="utf-8")
    shutil.copyfile(tiny / "chat_template.jinja", out / "chat_template.jinja")
