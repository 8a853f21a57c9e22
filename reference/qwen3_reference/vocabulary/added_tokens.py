"""Two more committed tokenizers, `tiny` with other added tokens: `tiny-added` and `tiny-overlaps`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

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
"""Of `tiny-added`: they are not ASCII, and have each flag once. Content to the flags that are set; ids follow on those
of `tiny`."""
OVERLAPS: dict[str, tuple[str, ...]] = {
    "<a>": (),
    "<a>b": (),
    "<a>c": ("normalized",),
    "vim": ("single_word",),
    "vimrc": ("single_word",),
    "go-go": ("single_word",),
    "[x[y]x]": ("special",),
    "[y]": (),
    "y]x]z": (),
    "ab bq": ("rstrip", "single_word"),
    "bq": (),
}
"""Of `tiny-overlaps`: one begins another, stands in another, or ends where another begins."""


def write_added(tiny: Path, out: Path, added: Mapping[str, Collection[str]] = ADDED) -> None:
    """`out` from the committed `tiny` with these added tokens; `ParityError` when it exists."""
    refuse_existing(out)
    whole, config = (json.loads((tiny / f"tokenizer{name}.json").read_text("utf-8")) for name in ("", "_config"))
    first = 1 + max(token["id"] for token in whole["added_tokens"])
    entries = {
        first + index: {"content": content, **{flag: flag in flags for flag in FLAGS}}
        for index, (content, flags) in enumerate(added.items())
    }
    whole["added_tokens"] += [{"id": number, **entry} for number, entry in entries.items()]
    config["added_tokens_decoder"] |= {str(number): entry for number, entry in entries.items()}
    out.mkdir(parents=True)
    for name, content in (("tokenizer.json", whole), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, indent=2 if name == "tokenizer_config.json" else None)
        (out / name).write_text(text + "\n", encoding="utf-8")
    shutil.copyfile(tiny / "chat_template.jinja", out / "chat_template.jinja")
