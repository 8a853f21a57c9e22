"""A golden file that is whole: what is read is what was written, in place, and stock protobuf reads the same."""

import hashlib
import mmap
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import ParityError, Recording, pb, read, tensor, write
from qwen3_golden.recording import SCHEMA_MINOR


def test_reading_gives_back_the_metadata(golden: Path, recording: Recording) -> None:
    got = read(golden, digests=True)
    assert (got.case, got.provenance, got.run) == (recording.case, recording.provenance, recording.run)
    assert list(got.parameters) == list(recording.parameters)


def test_reading_gives_back_every_tensor_in_order(golden: Path, recording: Recording) -> None:
    got = read(golden, digests=True)
    assert [t.key for t in got] == [t.key for t in recording]
    for actual, expected in zip(got, recording, strict=True):
        assert actual.array.dtype == expected.array.dtype
        assert actual.array.shape == expected.array.shape
        assert actual.array.tobytes() == expected.array.tobytes()


def test_a_tensor_is_found_by_name_and_step(golden: Path) -> None:
    got = read(golden)
    assert got["t.f32", 1].info.inputs == ["t.f64"]
    assert got.get("t.f32") is None
    assert ("t.f64", 0) in got


def test_the_digest_of_a_recording_is_that_of_its_metadata(golden: Path, recording: Recording) -> None:
    got = read(golden)
    metadata = pb.Recording(case=got.case, provenance=got.provenance, run=got.run, parameter=got.parameters)
    metadata.tensor.extend(t.info for t in got)
    assert got.digest == hashlib.sha256(metadata.SerializeToString()).digest()


def test_arrays_are_read_only(golden: Path) -> None:
    assert not any(t.array.flags.writeable for t in read(golden))


def test_arrays_stand_at_multiples_of_64_bytes(golden: Path) -> None:
    assert not any(t.array.ctypes.data % 64 for t in read(golden) if t.array.size)


def test_arrays_lie_in_the_memory_map(golden: Path) -> None:
    def owner(array: object) -> object:
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        return array.obj if isinstance(array, memoryview) else array

    maps = {id(owner(t.array)) for t in read(golden)}
    assert len(maps) == 1
    assert isinstance(owner(read(golden).tensors[0].array), mmap.mmap)


def test_a_mapped_file_that_is_replaced_keeps_its_values(tmp_path: Path, recording: Recording) -> None:
    path = tmp_path / "a.pb"
    write(path, recording)
    before = read(path)
    write(path, Recording(recording.case, recording.provenance, recording.run, []))
    assert before["t.f32", 1].array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert len(read(path).tensors) == 0


def test_stock_protobuf_parses_the_same_bytes(golden: Path, recording: Recording) -> None:
    message = pb.Recording.FromString(golden.read_bytes())
    assert [bytes(p) for p in message.payload] == [t.array.tobytes() for t in recording]
    assert list(message.tensor) == [t.info for t in read(golden)]
    assert message.end.tensors == len(recording.tensors)


def test_a_file_rewritten_by_stock_protobuf_is_still_readable(golden: Path, tmp_path: Path) -> None:
    for shift in range(8):  # some payload is at an odd address for one of them
        message = pb.Recording.FromString(golden.read_bytes())
        message.padding = bytes(shift)
        path = tmp_path / f"{shift}.pb"
        path.write_bytes(message.SerializeToString())
        again = read(path, digests=True)
        assert again.digest == read(golden).digest
        for actual, expected in zip(again, read(golden), strict=True):
            assert actual.array.tobytes() == expected.array.tobytes()
            assert actual.array.shape == expected.array.shape
            assert actual.array.flags.aligned and not actual.array.flags.writeable


def test_a_file_joined_from_messages_is_a_recording(golden: Path, tmp_path: Path) -> None:
    """As golden/README.md says that a port may write one."""
    whole = pb.Recording.FromString(golden.read_bytes())
    metadata = pb.Recording(case=whole.case, provenance=whole.provenance, run=whole.run, tensor=whole.tensor)
    content = metadata.SerializeToString()
    end = pb.End(
        tensors=len(whole.payload),
        payload_bytes=sum(map(len, whole.payload)),
        digest=hashlib.sha256(content).digest(),
    )
    parts = [pb.Recording(header=whole.header), *(pb.Recording(payload=[p]) for p in whole.payload)]
    path = tmp_path / "joined.pb"
    joined = b"".join(part.SerializeToString() for part in parts)
    path.write_bytes(joined + content + pb.Recording(end=end).SerializeToString())
    assert [t.array.tobytes() for t in read(path, digests=True)] == [bytes(p) for p in whole.payload]


def test_a_newer_minor_version_is_read_with_a_notice_at_the_caller(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "newer.pb"
    message = pb.Recording.FromString(golden.read_bytes())
    message.header.schema_minor = SCHEMA_MINOR + 1
    path.write_bytes(message.SerializeToString())
    newer = rf"schema 1\.{SCHEMA_MINOR + 1} is newer than ours \(1\.{SCHEMA_MINOR}\)"
    with pytest.warns(UserWarning, match=newer) as caught:
        assert len(read(path).tensors) == len(read(golden).tensors)
    assert caught[0].filename == __file__


def test_a_field_of_a_newer_version_in_the_metadata_is_skipped(golden: Path, tmp_path: Path) -> None:
    content = golden.read_bytes()
    message = pb.Recording.FromString(content)
    unknown = b"\x72\x03new"  # field 14
    start = content.index(pb.Recording(provenance=message.provenance).SerializeToString())
    metadata = unknown + content[start : content.index(pb.Recording(end=message.end).SerializeToString())]
    message.end.digest = hashlib.sha256(metadata).digest()
    path = tmp_path / "newer.pb"
    path.write_bytes(content[:start] + metadata + pb.Recording(end=message.end).SerializeToString())
    assert len(read(path, digests=True).tensors) == len(message.payload)


@pytest.mark.parametrize("what", ["missing", "folder", "empty", "nul", "text"])
def test_what_is_no_golden_file_is_refused(what: str, tmp_path: Path) -> None:
    paths = {"folder": tmp_path, "nul": tmp_path / "a\0b"}
    path = paths.get(what, tmp_path / what)
    if what in ("empty", "text"):
        path.write_text("a golden file\n" if what == "text" else "")
    rule = "not a golden file" if what in ("empty", "text") else "the file cannot be read"
    with pytest.raises(ParityError, match=rule):
        read(path)


def test_bfloat16_values_are_widened_and_others_served_in_place(recording: Recording) -> None:
    bits = tensor("t", np.array([0x3F80, 0xC000], np.uint16), dtype=pb.BF16)
    assert bits.values().tolist() == [1.0, -2.0]
    assert recording["t.f64", 0].values() is recording["t.f64", 0].array
    assert bits.is_float and not recording["t.u8", 0].is_float


def test_a_tokenization_is_read_back_whole_and_says_the_minor_version_that_has_it(tmp_path: Path) -> None:
    texts = pb.Tokenization(encoding=[pb.Encoding(name="nul", text="a\0\U0001f600", id=[1, 2])])
    case = pb.Case(name="tokenization/small", mode=pb.TOKENIZATION, tier=pb.TIER_TEXT)
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=["ids"])
    path = tmp_path / "texts.pb"
    write(path, Recording(case, pb.Provenance(producer="test"), run, [], tokenization=texts))
    assert read(path).tokenization == texts
    assert pb.Recording.FromString(path.read_bytes()).header.schema_minor == 1


def test_a_recording_without_texts_needs_no_newer_reader(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "again.pb"
    write(path, read(golden))
    assert pb.Recording.FromString(path.read_bytes()).header.schema_minor == 0
