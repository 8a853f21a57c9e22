"""CTranslate2's Qwen3 as a candidate, by its logits: its own converter and C++ kernels, each row run again whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from ctranslate2 import Generator
from ctranslate2.converters import TransformersConverter
from shared import causal_runner

PACKAGE, HAS = "ctranslate2", {"qk_norm"}


class Converter(TransformersConverter):
    """The package's own; a golden's checkpoint has no tokenizer, so that its tokens are their ids."""

    def load_tokenizer(self, _kind: Any, name: str, **_: Any) -> Any:
        """Nothing but the names of special tokens."""
        return SimpleNamespace(bos_token="0", eos_token="1", unk_token="2", pad_token="3", get_vocab=dict)


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint."""
    with TemporaryDirectory() as folder:
        Converter(str(checkpoints["decoder"])).convert(f"{folder}/model", quantization="float32")
        model = Generator(f"{folder}/model", compute_type="float32", intra_threads=1)

    def forward(ids: Any, now: slice) -> Any:
        return np.array(model.forward_batch(ids.tolist()))[:, now]

    return causal_runner("ctranslate2", [], forward, ["logits"])
