"""Recording an implementation: ours, or somebody else's behind a factory.

It runs `ours.inputs`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, pb, read
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import Tap, load_factory, record

CASES = GOLDEN_ROOT / "cases"
GOLDEN = CASES / "encoder" / "one_token.pb"


def stubborn(names: tuple[str, ...], run: pb.Run | None = None) -> Callable[..., Callable[..., None]]:
    """A factory of an implementation that repeats the golden's taps of these names, and no others."""

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
        def runner(case: pb.Case, inputs: Mapping[str, Array], tap: Tap, wanted: Callable[[str], bool]) -> None:
            for t in read(GOLDEN):
                if t.info.name in names:
                    tap(t.info.name, t.info.step, t.array)

        if run is not None:
            runner.run = run  # type: ignore[attr-defined]
        return runner

    return build


def test_what_a_foreign_implementation_does_not_deliver_is_missing(tmp_path: Path) -> None:
    record(read(GOLDEN), tmp_path / "c.pb", stubborn(("encoder.norm",)))
    verdicts = check(GOLDEN, tmp_path / "c.pb")
    assert verdicts.exit_code == 1 and verdicts.missing > 0


def test_an_implementation_may_say_what_it_materialises(tmp_path: Path) -> None:
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=["encoder.norm"])
    record(read(GOLDEN), tmp_path / "c.pb", stubborn(("encoder.norm",), run))
    verdicts = check(GOLDEN, tmp_path / "c.pb")
    assert verdicts.exit_code == 0 and verdicts.compared == 1 and verdicts.of > 50


def test_an_implementation_that_delivers_nothing_at_all_fails(tmp_path: Path) -> None:
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=["logits"])
    record(read(GOLDEN), tmp_path / "c.pb", stubborn((), run))
    verdicts = check(GOLDEN, tmp_path / "c.pb")
    assert verdicts.exit_code == 1 and any("zero comparisons" in p.rule for p in verdicts.problems)


def test_a_tap_without_a_name_of_the_table_fails(tmp_path: Path) -> None:
    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
        def runner(case: pb.Case, inputs: Mapping[str, Array], tap: Tap, wanted: Callable[[str], bool]) -> None:
            tap("encoder.layers.0.attention.query", 0, np.zeros(3, np.float32))

        return runner

    record(read(GOLDEN), tmp_path / "c.pb", build)
    assert any(".attention.query" in str(p) for p in check(GOLDEN, tmp_path / "c.pb").problems)


def test_nothing_is_left_behind_when_the_implementation_fails(tmp_path: Path) -> None:
    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
        def runner(*_: object) -> None:
            raise RuntimeError("out of luck")

        return runner

    with pytest.raises(ParityError, match="RuntimeError: out of luck"):
        record(read(GOLDEN), tmp_path / "c.pb", build)
    assert not list(tmp_path.iterdir())


def test_a_second_request_is_recorded_after_the_first_on_the_same_object(tmp_path: Path) -> None:
    seen: list[str] = []
    golden = read(CASES / "encdec" / "second_request.pb")

    def build(case: pb.Case, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
        ours = factory()(case, checkpoints)

        def runner(case: pb.Case, inputs: Mapping[str, Array], tap: Tap, wanted: Callable[[str], bool]) -> None:
            seen.append(case.name)
            ours(case, inputs, tap, wanted)

        return runner

    record(golden, tmp_path / "c.pb", build)
    assert seen == ["encdec/window", "encdec/second_request"]


def test_a_checkpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParityError, match="checkpoint of the encoder is not there"):
        checkpoint_directories(read(GOLDEN).case, tmp_path)


def test_our_own_factory_can_be_named_like_any_other() -> None:
    assert load_factory("qwen3_parity.recording.ours.network:factory") is factory


def test_something_that_is_no_factory_is_refused() -> None:
    with pytest.raises(ParityError, match="cannot be called"):
        load_factory("qwen3_golden:GOLDEN_ROOT")
