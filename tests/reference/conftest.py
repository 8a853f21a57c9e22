"""The committed checkpoints, and recordings of Hugging Face in memory; the tests of this folder share `families`."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Array
from qwen3_reference.capture.models import Reference, load_reference
from qwen3_reference.capture.run import run_reference
from qwen3_reference.cases.networks import case, inputs
from qwen3_reference.checkpoints.configs import model_config

sys.path.insert(0, str(Path(__file__).parent))

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
Taps = dict[tuple[str, int], torch.Tensor]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoints() -> Path:
    return CHECKPOINTS


@pytest.fixture(scope="session")
def reference_of() -> Callable[..., Reference]:
    """The models of a case, loaded once; `attention` replaces the recording attention."""
    loaded: dict[tuple[str, str, bool, str | None], Reference] = {}

    def load(name: str, attention: str | None = None) -> Reference:
        definition = case(name)
        key = (definition.encoder, definition.decoder, definition.rotate_encoder_keys, attention)
        if key not in loaded:
            loaded[key] = load_reference(
                CHECKPOINTS / definition.encoder if definition.encoder else None,
                CHECKPOINTS / definition.decoder if definition.decoder else None,
                rotate_encoder_keys=definition.rotate_encoder_keys,
                attention=attention,
            )
        return loaded[key]

    return load


@pytest.fixture(scope="session")
def inputs_of() -> Callable[[str], dict[str, Array]]:
    def arrays_of(name: str) -> dict[str, Array]:
        definition = case(name)
        config = model_config(CHECKPOINTS / (definition.decoder or definition.encoder))
        return dict(inputs(definition, config.vocab_size, config.hidden_size))

    return arrays_of


@pytest.fixture(scope="session")
def taps_of() -> Callable[..., Taps]:
    """Every tap of a run, by (name, step)."""

    def run(reference: Reference, arrays: dict[str, Array], steps: tuple[int, ...]) -> Taps:
        taps: Taps = {}

        def keep(step: int, name: str, value: torch.Tensor) -> None:
            assert (name, step) not in taps, f"{name} was recorded twice in step {step}"
            taps[name, step] = value

        run_reference(reference, arrays, steps, keep)
        return taps

    return run
