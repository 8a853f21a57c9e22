"""Hugging Face's tokenizers and ours side by side: the committed vocabulary, the real one, and one of bytes alone."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from qwen3_encdec.tokenizer.added_tokens import AddedToken
from qwen3_encdec.tokenizer.byte_symbols import SYMBOLS
from qwen3_encdec.tokenizer.files import TokenizerFiles
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_golden import GOLDEN_ROOT

sys.path.insert(0, str(Path(__file__).parent))

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="session")
def tiny() -> Path:
    return GOLDEN_ROOT / "tokenizers" / "tiny"


@pytest.fixture(scope="session")
def real() -> Path:
    data = os.environ.get("QWEN3_PARITY_DATA")
    if not data:
        pytest.skip("QWEN3_PARITY_DATA is not set: the real Qwen3 vocabulary is not here")
    return Path(data) / "qwen3-tokenizer"


@pytest.fixture(scope="session")
def hf_tiny(tiny: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny)


@pytest.fixture(scope="session")
def hf_real(real: Path) -> Any:
    return AutoTokenizer.from_pretrained(real)


@pytest.fixture(scope="session")
def ours_tiny(tiny: Path) -> ByteLevelTokenizer:
    return ByteLevelTokenizer.from_directory(tiny)


@pytest.fixture(scope="session")
def ours_real(real: Path) -> ByteLevelTokenizer:
    return ByteLevelTokenizer.from_directory(real)


@pytest.fixture(scope="session", params=["tiny", "real"])
def vocabulary(request: pytest.FixtureRequest) -> str:
    """Which of the two: `hf` and `ours` are its tokenizers, and a test that asks for them runs with each."""
    return str(request.param)


@pytest.fixture(scope="session")
def hf(vocabulary: str, request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"hf_{vocabulary}")


@pytest.fixture(scope="session")
def ours(vocabulary: str, request: pytest.FixtureRequest) -> ByteLevelTokenizer:
    tokenizer: ByteLevelTokenizer = request.getfixturevalue(f"ours_{vocabulary}")
    return tokenizer


Pair = Callable[..., tuple[Tokenizer, ByteLevelTokenizer]]


@pytest.fixture(scope="session")
def pair() -> Pair:
    """`pair(added tokens, normalizer="NFC", vocabulary=…)`: theirs and ours, a token for each byte."""

    def make(
        added_tokens: Sequence[AddedToken] = (), *, normalizer: str = "NFC", vocabulary: dict[str, int] | None = None
    ) -> tuple[Tokenizer, ByteLevelTokenizer]:
        if vocabulary is None:
            vocabulary = {symbol: byte for byte, symbol in enumerate(SYMBOLS)}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
        theirs = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [asdict(token) for token in added_tokens],
            "normalizer": {"type": normalizer} if normalizer else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        }
        files = TokenizerFiles(
            vocabulary=vocabulary, merges=[], added_tokens=tuple(added_tokens),
            pattern=PATTERN, pattern_is_literal=False, normalizer=normalizer,
            pad_token=None, eos_token=None, bos_token=None, unk_token=None,
            chat_template=None, padding_side="right", truncation_side="right",
        )  # fmt: skip
        return Tokenizer.from_str(json.dumps(theirs)), ByteLevelTokenizer(files)

    return make
