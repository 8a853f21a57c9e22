"""What several benchmarks use lies beside them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many work: one, unless the test says that it is as many as torch takes by itself."""
    count: int = getattr(request, "param", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)
