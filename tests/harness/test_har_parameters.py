"""What was loaded: one element of any parameter, any broken tie, any wrong name is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_parity import check, replay
from qwen3_parity.checkpoints.weights import checkpoint_directories, weights_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import record
from qwen3_parity.recording.suite import OURS
from qwen3_reference.torch_tensors import parameter_messages

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
TIED = ("decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "lm_head.weight")
Golden = Callable[[str], Recording]
Judged = Callable[..., Verdicts]


def stored_names(case: pb.Case) -> set[str]:
    """Canonical parameter names of a case, from the names in its safetensors files alone."""
    names = set()
    for checkpoint in case.checkpoint:
        for file in (CHECKPOINTS / checkpoint.name).glob("*.safetensors"):
            with safe_open(file, framework="np") as stored:
                names |= {re.sub("^model", checkpoint.role, name) for name in stored.keys()}  # noqa: SIM118
    names = {re.sub(r"^(decoder\..*)\.self_attn\.", r"\1.merged_attn.", name) for name in names}
    has_head = any(checkpoint.role == "decoder" for checkpoint in case.checkpoint)
    return names | {"lm_head.weight"} if has_head else names - {"lm_head.weight"}


NAMES = sorted(stored_names(read(GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb").case))


def prefill(recording: Recording) -> Recording:
    """The first forward of a case as a golden of its own."""
    case = pb.Case.FromString(recording.case.SerializeToString())
    case.steps[:] = recording.case.steps[:1]
    return replace(recording, case=case, tensors=[item for item in recording if item.info.step == 0])


def loaded_with(problems: list[object]) -> list[str]:
    """The parameters that the judge says were loaded with other bytes."""
    matches = [re.fullmatch("checkpoint as loaded differs: (.*)", getattr(p, "rule", "")) for p in problems]
    return [name for matched in matches if matched for name in matched[1].split(", ")]


def detach(runner: EncoderDecoder, name: str) -> torch.nn.Parameter:
    """Give the parameter its own storage, so that a tied one can be changed alone; the parameter."""
    path, _, last = name.rpartition(".")
    module = runner.model.get_submodule(path)
    parameter = torch.nn.Parameter(getattr(module, last).detach().clone(), requires_grad=False)
    setattr(module, last, parameter)
    runner.parameters[name] = parameter
    return parameter


def living_element(name: str, recording: Recording) -> tuple[int, ...]:
    """An element that the case's inputs exercise: of an embedding, a row that is looked up."""
    if not name.endswith("embed_tokens.weight"):
        return (0,) if name.endswith("norm.weight") else (1, 2)
    stack = name.partition(".")[0]
    return int(recording[f"input.{stack}_input_ids", 0].array[0, 0]), 3


@pytest.mark.sample(every=17)
@pytest.mark.parametrize("name", NAMES)
def test_har_03_one_changed_element_of_any_parameter_is_found(
    name: str, golden: Golden, recorded: Callable[..., Recording]
) -> None:
    whole = prefill(golden("encdec/ragged"))

    def seed(runner: EncoderDecoder) -> None:
        parameter = detach(runner, name)
        with torch.no_grad():
            parameter[living_element(name, whole)] += 0.25 * parameter.std()

    candidate = recorded(whole, seed)
    assert loaded_with(check(whole, candidate).problems) == [name]
    by_numbers = check(whole, replace(candidate, parameters=[]))
    assert by_numbers.exit_code == 1
    tap_name = f"{name.removesuffix('.weight')}".replace("lm_head", "logits")
    assert tap_name in {tap.name for tap in by_numbers.taps if not tap.passed}


@pytest.mark.parametrize("name", ["decoder.layers.1.merged_attn.k_norm.weight", "encoder.norm.weight"])
def test_har_03_the_op_of_a_changed_parameter_is_the_one_that_is_blamed(
    name: str, golden: Golden, recorded: Callable[..., Recording]
) -> None:
    whole = prefill(golden("encdec/ragged"))

    def seed(runner: EncoderDecoder) -> None:
        with torch.no_grad():
            detach(runner, name)[0] *= 1.01

    candidate = recorded(whole, seed)
    blamed = {verdict.name for verdict in replay(candidate, weights_of(candidate, CHECKPOINTS)) if not verdict.passed}
    tap = name.removesuffix(".weight")
    assert blamed == {tap} | ({tap.replace("k_norm", "encoder_k_norm")} if "merged" in tap else set())


def test_har_03_one_bit_of_an_embedding_row_that_no_input_reads_is_found(
    golden: Golden, recorded: Callable[..., Recording]
) -> None:
    whole = prefill(golden("encdec/ragged"))
    name = "encoder.embed_tokens.weight"
    unread = min(set(range(211)) - set(whole["input.encoder_input_ids", 0].array.ravel().tolist()))

    def seed(runner: EncoderDecoder) -> None:
        with torch.no_grad():
            row = detach(runner, name)[unread]
            row[0] = torch.nextafter(row[0], torch.tensor(9.0))

    candidate = recorded(whole, seed)
    assert loaded_with(check(whole, candidate).problems) == [name]
    assert check(whole, replace(candidate, parameters=[])).exit_code == 0  # no number shows it: the digest must


@pytest.mark.parametrize("name", TIED)
def test_har_02_a_tie_that_is_broken_in_one_place_alone_is_found_there(name: str, judged: Judged) -> None:
    def seed(runner: EncoderDecoder) -> None:
        with torch.no_grad():
            detach(runner, name)[200, 1] += 1

    assert loaded_with(judged("encdec/ragged", seed).problems) == [name]


def test_har_02_a_tie_counts_by_its_numbers_not_by_its_storage(judged: Judged) -> None:
    def untie(runner: EncoderDecoder) -> None:
        for name in TIED:
            detach(runner, name)

    assert judged("encdec/ragged", untie).exit_code == 0


def test_har_02_parameters_without_storage_are_no_equal_parameters(golden: Golden, tmp_path: Path) -> None:
    def on_meta(case: pb.Case, checkpoints: dict[str, Path]) -> EncoderDecoder:
        runner = factory()(case, checkpoints)
        assert isinstance(runner, EncoderDecoder)
        runner.model.to("meta")
        return runner

    with pytest.raises(ParityError, match="the implementation failed"):
        record(golden("encdec/ragged"), tmp_path / "meta.pb", on_meta)  # type: ignore[arg-type]
    assert not (tmp_path / "meta.pb").exists()


def test_har_02_empty_parameters_of_other_dtypes_are_no_equal_parameters() -> None:
    empty = {"a": torch.zeros(0), "b": torch.zeros(0, dtype=torch.bfloat16)}
    first, second = parameter_messages(empty)
    assert (first.dtype, second.dtype) == (pb.F32, pb.BF16)


def test_har_20_recorded_parameters_are_the_stored_names_each_once(networks: dict[str, Recording]) -> None:
    for recording in networks.values():
        names = [parameter.name for parameter in recording.parameters]
        assert len(names) == len(set(names))
        assert set(names) == stored_names(recording.case), recording.case.name


def test_har_20_our_parameters_are_the_stored_names_whatever_is_tied(networks: dict[str, Recording]) -> None:
    for recording in (network for network in networks.values() if network.case.config.model_type in OURS):
        runner = factory()(recording.case, checkpoint_directories(recording.case, CHECKPOINTS))
        assert isinstance(runner, EncoderDecoder)
        assert set(runner.parameters) == stored_names(recording.case), recording.case.name


def test_har_20_a_renamed_parameter_is_two_differences_though_the_count_is_right(golden: Golden) -> None:
    recording = golden("encoder/one_token")
    parameters = [pb.Parameter.FromString(parameter.SerializeToString()) for parameter in recording.parameters]
    parameters[3].name += "s"
    problems = check(recording, replace(recording, parameters=parameters)).problems
    assert [p.got for p in problems] == ["1 × never loaded", "1 × not in the checkpoint"]


def test_har_20_a_stored_value_in_another_dtype_is_a_difference(golden: Golden) -> None:
    recording = golden("encoder/one_token")
    parameters = [pb.Parameter.FromString(parameter.SerializeToString()) for parameter in recording.parameters]
    parameters[0].dtype = pb.BF16
    assert check(recording, replace(recording, parameters=parameters)).exit_code == 1
    assert np.unique([parameter.dtype for parameter in recording.parameters]).tolist() == [pb.F32]
