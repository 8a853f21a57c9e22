"""The tests of this folder share `tokenization_by_hand`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tokenization_by_hand import by_hand

from qwen3_golden import Recording


@pytest.fixture
def golden() -> Recording:
    return by_hand()
