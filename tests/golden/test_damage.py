"""A golden file that is damaged: always one `ParityError`, never another exception and never other numbers."""

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qwen3_golden import ParityError, Recording, pb, read, wire

FUZZ = settings(
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the folder is the same for every example
)


def refuse(content: bytes, tmp_path: Path, match: str | None = None, *, digests: bool = False) -> str:
    path = tmp_path / "damaged.pb"
    path.write_bytes(content)
    with pytest.raises(ParityError, match=match) as caught:
        read(path, digests=digests)
    assert str(path) in str(caught.value)
    return str(caught.value)


def sealed(message: pb.Recording) -> bytes:
    """The message as a file whose `end` agrees with everything else, as a wrong writer would make it."""
    message.ClearField("padding")
    message.ClearField("end")
    metadata = pb.Recording()
    metadata.CopyFrom(message)
    for ahead in ("header", "payload"):
        metadata.ClearField(ahead)
    message.end.tensors = len(message.payload)
    message.end.payload_bytes = sum(map(len, message.payload))
    message.end.digest = hashlib.sha256(metadata.SerializeToString()).digest()
    return message.SerializeToString()


def content_of(recording: Recording) -> list[object]:
    metadata = [recording.case, recording.provenance, recording.run, *recording.parameters]
    tensors = [(t.info.SerializeToString(), t.array.tobytes(), t.array.shape) for t in recording]
    return [*(message.SerializeToString() for message in metadata), *tensors]


def test_a_file_cut_at_any_byte_is_refused(golden: Path, tmp_path: Path) -> None:
    content = golden.read_bytes()
    for size in range(len(content)):
        refuse(content[:size], tmp_path)


def test_a_file_cut_exactly_between_two_fields_is_called_cut_off(golden: Path, tmp_path: Path) -> None:
    content = golden.read_bytes()
    for field in list(wire.fields(content, golden))[1:]:
        refuse(content[: field.start], tmp_path, "the file is cut off, or two files stand in one")


def test_a_file_twice_in_a_row_is_refused(golden: Path, tmp_path: Path) -> None:
    message = refuse(golden.read_bytes() * 2, tmp_path, "two files stand in one")
    assert "2 × header" in message


def test_a_payload_less_is_refused(golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    del message.payload[0]
    refuse(message.SerializeToString(), tmp_path, "counts in the file disagree")


def test_a_tensor_message_twice_is_refused(golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    message.tensor.append(message.tensor[0])
    refuse(message.SerializeToString(), tmp_path, "counts in the file disagree")


@pytest.mark.parametrize("field", ["header", "provenance", "case", "run", "end"])
def test_a_file_without_a_part_is_refused(field: str, golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    message.ClearField(field)
    refuse(message.SerializeToString(), tmp_path, "not a golden file" if field == "header" else f"0 × {field}")


def test_bytes_after_the_end_are_refused(golden: Path, tmp_path: Path) -> None:
    refuse(golden.read_bytes() + b"\x12\x00", tmp_path, "something after end")


def test_a_payload_after_the_metadata_is_refused(golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    parts = pb.Recording(header=message.header), pb.Recording(case=message.case), pb.Recording(payload=message.payload)
    for done in ("header", "case", "payload", "padding"):
        message.ClearField(done)
    refuse(b"".join(p.SerializeToString() for p in (*parts, message)), tmp_path, "not in order")


def test_a_changed_payload_is_refused_when_digests_are_asked_for(golden: Path, tmp_path: Path) -> None:
    content = bytearray(golden.read_bytes())
    payloads = [f for f in wire.fields(bytes(content), golden) if f.number == wire.PAYLOAD]
    content[payloads[1].begin] ^= 1
    assert "t.f32 (step 1)" in refuse(bytes(content), tmp_path, "not what was written", digests=True)


def test_every_changed_byte_of_the_metadata_is_refused(golden: Path, tmp_path: Path) -> None:
    content = golden.read_bytes()
    found = list(wire.fields(content, golden))
    start = next(f.start for f in found if f.number > wire.PAYLOAD)
    for position in range(start, found[-1].start):
        changed = bytearray(content)
        changed[position] ^= 0x01
        refuse(bytes(changed), tmp_path)


def test_two_payloads_that_changed_places_are_refused_when_digests_are_asked_for(golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    message.payload[4], message.payload[0] = message.payload[0], message.payload[4]
    refuse(message.SerializeToString(), tmp_path, "not what was written", digests=True)


@pytest.mark.parametrize("major", [0, 2])
def test_another_major_version_is_refused(major: int, golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    message.header.schema_major = major
    got = refuse(message.SerializeToString(), tmp_path, "this schema version is not ours")
    assert f"{major}.0" in got and "major version 1" in got


def test_another_magic_is_refused(golden: Path, tmp_path: Path) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    message.header.magic = "qwen4.golden"
    assert "qwen4.golden" in refuse(message.SerializeToString(), tmp_path, "not a golden file")


Change = Callable[[pb.Recording], None]
WRONG: dict[str, tuple[str, Change]] = {
    "size of another shape": ("size disagrees", lambda m: m.tensor[0].shape.append(2)),
    "size of another dtype": ("size disagrees", lambda m: setattr(m.tensor[0], "dtype", pb.F32)),
    "size that is too small": ("size disagrees", lambda m: setattr(m.tensor[0], "bytes", 1)),
    "size of a cut payload": ("size disagrees", lambda m: m.payload.__setitem__(0, b"x")),
    "shape beyond 64 bits": ("size disagrees", lambda m: m.tensor[0].shape.extend([2**63, 2**63])),
    "empty shape beyond 64 bits": ("shape is impossible", lambda m: m.tensor[-1].shape.extend([2**63])),
    "empty shape beyond memory": ("shape is impossible", lambda m: m.tensor[-1].shape.extend([2**40, 2**40])),
    "too many dimensions": ("too many dimensions", lambda m: m.tensor[0].shape.extend([1] * 31)),
    "axes of another shape": ("axes disagree", lambda m: m.tensor[0].axes.append("more")),
    "a digest of 31 bytes": ("no SHA-256", lambda m: setattr(m.tensor[0], "sha256", bytes(31))),
    "dtype unset": ("dtype of t.f64 .* not valid", lambda m: m.tensor[0].ClearField("dtype")),
    "dtype unknown": ("dtype of t.f64 .* not valid", lambda m: setattr(m.tensor[0], "dtype", 99)),
    "mode unset": ("mode of the case is not valid", lambda m: m.case.ClearField("mode")),
    "mode unknown": ("mode of the case is not valid", lambda m: setattr(m.case, "mode", 99)),
    "tier unknown": ("tier of the case is not valid", lambda m: setattr(m.case, "tier", 99)),
    "beams, which were a strategy": (
        "strategy of the case is not valid",
        lambda m: setattr(m.case.generation, "strategy", "beam"),
    ),
    "arithmetic unknown": ("arithmetic of the run is not valid", lambda m: setattr(m.run, "arithmetic", 99)),
    "backend unknown": ("backend of the run is not valid", lambda m: setattr(m.run, "backend", 99)),
    "parameter without dtype": ("dtype of w.weight is not valid", lambda m: m.parameter[0].ClearField("dtype")),
    "a bool of 2": ("neither 0 nor 1", lambda m: m.payload.__setitem__(7, bytes([0, 1, 2, 0, 0, 0]))),
}


@pytest.mark.parametrize("what", WRONG)
def test_metadata_that_cannot_be_is_refused(what: str, golden: Path, tmp_path: Path) -> None:
    match, change = WRONG[what]
    message = pb.Recording.FromString(golden.read_bytes())
    change(message)
    refuse(sealed(message), tmp_path, match)


def test_names_that_are_not_utf8_are_refused(golden: Path, tmp_path: Path) -> None:
    content = sealed(pb.Recording.FromString(golden.read_bytes())).replace(b"t.f64", b"t.\xfff4")
    refuse(content, tmp_path, "the metadata cannot be parsed")


FIELDS = {
    "a padding whose size has 11 bytes": b"\x12" + b"\x80" * 10 + b"\x00",
    "a size beyond 64 bits": b"\x1a" + b"\xff" * 9 + b"\x7f",
    "a size beyond the file": b"\x1a" + b"\xff" * 8 + b"\x7f",
    "a tag beyond 32 bits": b"\x9a\x80\x80\x80\x80\x80\x01\x00",
    "field number 0": b"\x02\x00",
    "a number": b"\x48\x01",
    "eight bytes": b"\x49" + bytes(8),
    "a group": b"\x4b\x4c",
    "four bytes": b"\x4d" + bytes(4),
    "wire type 7": b"\x4f\x00",
}


@pytest.mark.parametrize("what", FIELDS)
def test_a_field_that_cannot_be_is_refused(what: str, golden: Path, tmp_path: Path) -> None:
    content = golden.read_bytes()
    start = list(wire.fields(content, golden))[1].start
    refuse(content[:start] + FIELDS[what] + content[start:], tmp_path)


def check_fuzzed(content: bytes, golden: Path, path: Path) -> None:
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a byte of the minor version
            got = read(path, digests=True)
    except ParityError:
        return
    assert content_of(got) == content_of(read(golden))


@FUZZ
@given(data=st.data())
def test_changed_bytes_give_the_same_recording_or_an_error(data: st.DataObject, golden: Path, tmp_path: Path) -> None:
    content = bytearray(golden.read_bytes())
    places = st.integers(0, len(content) - 1)
    for position, value in data.draw(st.dictionaries(places, st.integers(0, 255), min_size=1, max_size=4)).items():
        content[position] = value
    check_fuzzed(bytes(content), golden, tmp_path / "fuzzed.pb")


@FUZZ
@given(data=st.data())
def test_removed_and_repeated_ranges_give_the_same_recording_or_an_error(
    data: st.DataObject, golden: Path, tmp_path: Path
) -> None:
    content = golden.read_bytes()
    starts = [f.start for f in wire.fields(content, golden)]
    places = st.integers(0, len(content)) | st.sampled_from(starts)
    first, second = data.draw(places), data.draw(places)
    check_fuzzed(content[:first] + content[second:], golden, tmp_path / "fuzzed.pb")


@FUZZ
@given(tail=st.binary(max_size=200))
def test_any_bytes_behind_a_header_are_refused(tail: bytes, golden: Path, tmp_path: Path) -> None:
    content = golden.read_bytes()
    refuse(content[: next(wire.fields(content, golden)).end] + tail, tmp_path)


def test_an_unaligned_payload_is_no_damage(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "sealed.pb"
    path.write_bytes(sealed(pb.Recording.FromString(golden.read_bytes())))
    assert np.array_equal(read(path)["t.f64", 0].array, read(golden)["t.f64", 0].array)
