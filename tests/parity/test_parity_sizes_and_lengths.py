"""Faults that need size, or the same lengths twice, to show: indices cut short, lost blocks, cached tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detection.honest.ports import numpy_port
from detection.mutants.patch import Patch
from qwen3_encdec import inputs
from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read
from qwen3_parity import check
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import record

CASES = GOLDEN_ROOT / "cases"
Op = Callable[[Mapping[str, Any]], Any]


def exit_code(case: str, output: str, op: Op) -> int:
    """The verdict on somebody's `op` of the golden's inputs."""
    golden = read(CASES / f"{case}.pb")
    arrays = {item.info.name.partition(".")[2]: item.array for item in golden}
    value = np.asarray(op(arrays), np.float32)
    tensors = [Tensor(item.info, value if item.info.name == output else item.array) for item in golden]
    return check(golden, Recording(golden.case, golden.provenance, golden.run, tensors)).exit_code


def look_up(bits: int) -> Op:
    return lambda arrays: arrays["weight"][arrays["ids"] % 2**bits, :]


def scores(keys: int) -> Op:
    """q · k, the keys counted by an index that starts again at `keys`."""

    def op(arrays: Mapping[str, Any]) -> Any:
        k = arrays["k"][:, :, np.arange(arrays["k"].shape[2]) % keys]
        k = np.repeat(k, arrays["q"].shape[1] // k.shape[1], axis=1)
        return arrays["q"] @ k.swapaxes(2, 3) * np.float32(arrays["q"].shape[-1] ** -0.5)

    return op


def context(keys: int) -> Op:
    def op(arrays: Mapping[str, Any]) -> Any:
        v = arrays["v"][:, :, np.arange(arrays["v"].shape[2]) % keys]
        v = np.repeat(v, arrays["probs"].shape[1] // v.shape[1], axis=1)
        return (arrays["probs"] @ v).swapaxes(1, 2)

    return op


def softmax(block: int) -> Op:
    """A softmax that forgets the keys behind its first block in the sum."""

    def op(arrays: Mapping[str, Any]) -> Any:
        scores = np.where(arrays["mask"][:, None], arrays["scores"].astype(np.float64), -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights[..., :block].sum(axis=-1, keepdims=True)

    return op


@pytest.mark.parametrize(
    ("large", "small", "output", "correct", "wrong"),
    [
        ("embedding_many_ids", "embedding", "output.y", look_up(17), look_up(16)),
        ("scores_many_keys", "scores", "output.scores", scores(512), scores(256)),
        ("context_many_keys", "context", "output.context", context(512), context(256)),
        ("softmax_1100_keys", "softmax_many_keys", "output.probs", softmax(2048), softmax(1024)),
    ],
    ids=["ids of 16 bits", "keys of 8 bits", "values of 8 bits", "a block of 1,024"],
)
def test_a_fault_of_sizes_shows_in_the_large_case_alone(
    large: str, small: str, output: str, correct: Op, wrong: Op
) -> None:
    assert exit_code(f"op/{large}", output, correct) == 0
    assert exit_code(f"op/{small}", output, wrong) == 0
    assert exit_code(f"op/{large}", output, wrong) == 1


@pytest.mark.parametrize(("case", "code"), [("plain", 0), ("multiples_of_256", 1)])
def test_channels_counted_by_seven_bits_show_where_there_are_256(
    case: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, golden = numpy_port(), read(CASES / "decoder" / f"{case}.pb")
    norm = port.rms_norm
    monkeypatch.setattr(port, "rms_norm", lambda x, weight, eps: norm(x, weight[np.arange(len(weight)) % 128], eps))
    record(golden, tmp_path / "port.pb", port.factory)
    assert check(golden, read(tmp_path / "port.pb")).exit_code == code


def test_block_formats_can_hold_every_matrix_of_multiples_of_256() -> None:
    config = read(CASES / "decoder" / "multiples_of_256.pb").case.config
    rows = config.hidden_size, config.intermediate_size, config.num_attention_heads * config.head_dim
    assert config.head_dim == 32 and not any(size % 256 for size in rows)


def test_the_second_request_has_the_lengths_of_the_first_and_other_padding() -> None:
    second = read(CASES / "encdec" / "second_request.pb")
    first = read(CASES / f"{second.case.after}.pb")
    assert second.case.steps == first.case.steps
    for stack in ("encoder", "decoder"):
        name = f"input.{stack}_attention_mask"
        ours, theirs = second[name, 0].array, first[name, 0].array
        assert ours.shape == theirs.shape and (ours != theirs).any(axis=1).all()


def test_positions_cached_by_length_show_in_the_second_request(tmp_path: Path) -> None:
    golden, patches = read(CASES / "encdec" / "second_request.pb"), list[Patch]()

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> EncoderDecoder:
        runner = factory("eager")(case, checkpoints)
        assert isinstance(runner, EncoderDecoder)
        patches.append(Patch(lambda: runner))
        known: dict[Any, Any] = {}

        def by_length(plain: Any, ids: Any, mask: Any, batch: int, length: int, past: int, *more: Any) -> Any:
            key = batch, length, past, more[0]
            if key not in known:
                known[key] = plain(ids, mask, batch, length, past, *more)
            return known[key]

        patches[0].function(inputs.positions, by_length)
        return runner

    try:
        record(golden, tmp_path / "cached.pb", build)
    finally:
        for patch in patches:
            patch.undo()
    verdicts = check(golden, read(tmp_path / "cached.pb"))
    assert verdicts.exit_code == 1 and verdicts.first_bad is not None
    assert verdicts.first_bad.name == "encoder.position_ids"
