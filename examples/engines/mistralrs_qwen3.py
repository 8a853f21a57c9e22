"""mistral.rs as a candidate, by the ids that it chooses: its own Rust, which shows Python nothing else.

A golden's checkpoint has no tokenizer, so that its tokens get names.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mistralrs
import numpy as np
from shared import run
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

PACKAGE, HAS = "mistralrs", {"qk_norm", "generation"}


def lacks(case: Any) -> list[str]:
    """What it cannot show: a case in which nothing is chosen."""
    return [] if case.HasField("generation") else ["logits"]


def with_names(checkpoint: Path, folder: Path) -> None:
    """The checkpoint with a tokenizer of `t0 t1 …`, and with what a published config.json states."""
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    vocabulary = {f"t{index}": index for index in range(config["vocab_size"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="t0"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.WhitespaceSplit(), decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"max_window_layers": config["num_hidden_layers"]} | config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "t0", "chat_template": "{{ messages }}"}))


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner of greedy cases without an end, row by row, in float32."""
    with TemporaryDirectory() as folder:
        with_names(checkpoints["decoder"], Path(folder))
        which = mistralrs.Which.Plain(folder, mistralrs.Architecture.Qwen3, dtype=mistralrs.ModelDType.F32)
        engine = mistralrs.Runner(which=which, token_source="none")

    def generated(ids: list[int]) -> list[int]:
        prompt = " ".join(f"t{one}" for one in ids)
        request = mistralrs.CompletionRequest(
            prompt, "", max_tokens=case.max_new_tokens, temperature=0.0, ignore_eos=True
        )
        return [int(one) for one in re.findall(r"t(\d+)", engine.send_completion_request(request).choices[0].text)]

    def run_case(case: Any, inputs: Mapping[str, Any], tap: Callable[..., None], _: Callable[[str], bool]) -> None:
        prompts = inputs["input.decoder_input_ids"][:, : case.generation.prompt_length].tolist()
        tap("generated_ids", 0, np.array([generated(ids) for ids in prompts], np.int64))

    run_case.run, run_case.producer = run(["generated_ids"]), "mistral.rs"  # type: ignore[attr-defined]
    return run_case
