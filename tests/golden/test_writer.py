"""Writing a golden file: the layout, nothing but a whole file at its name, and clear errors."""

import errno
import hashlib
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import ParityError, Recording, Tensor, Writer, pb, read, tensor, wire, write

CASE = pb.Case(name="test/written", mode=pb.PLUMBING)
RUN = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER)


def finish(writer: Writer) -> None:
    writer.finish(CASE, pb.Provenance(producer="test"), RUN)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk that is full as soon as a file has `size` bytes; Python turns the signal into an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_fields_stand_in_the_order_of_the_schema(golden: Path, recording: Recording) -> None:
    numbers = [f.number for f in wire.fields(golden.read_bytes(), golden)]
    count = len(recording.tensors)
    assert numbers == [1, *[2, 3] * count, 4, 5, 6, 7, *[8] * count, 15]


def test_every_payload_stands_at_a_multiple_of_64_behind_fewer_than_64_zeros(golden: Path) -> None:
    content = golden.read_bytes()
    for field in wire.fields(content, golden):
        if field.number == wire.PAYLOAD:
            assert field.begin % 64 == 0
        if field.number == wire.PADDING:
            assert content[field.begin : field.end] == bytes(field.end - field.begin)
            assert field.end - field.begin < 64


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 129, 16383, 16384, 2**21])
def test_payloads_are_aligned_whatever_the_size_of_the_one_before(size: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    write(path, Recording(CASE, pb.Provenance(), RUN, [tensor("a", np.zeros(size, "u1")), tensor("b", np.ones(3))]))
    assert all(t.array.ctypes.data % 64 == 0 for t in read(path))


def test_the_same_recording_gives_the_same_bytes(golden: Path, recording: Recording, tmp_path: Path) -> None:
    write(tmp_path / "again.pb", recording)
    assert (tmp_path / "again.pb").read_bytes() == golden.read_bytes()


def test_what_was_read_is_written_as_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    write(tmp_path / "again.pb", read(golden))
    assert (tmp_path / "again.pb").read_bytes() == golden.read_bytes()


def test_every_tensor_has_its_digest(golden: Path) -> None:
    assert all(t.info.sha256 == hashlib.sha256(t.array.tobytes()).digest() for t in read(golden))


def test_digests_are_left_out_when_they_are_not_wanted(golden: Path, tmp_path: Path) -> None:
    write(tmp_path / "a.pb", read(golden), digests=False)
    assert not any(t.info.sha256 for t in read(tmp_path / "a.pb", digests=True))


def test_writing_leaves_the_given_metadata_alone(tmp_path: Path) -> None:
    item = tensor("a", np.ones(3, "f4"))
    with Writer(tmp_path / "a.pb") as writer:
        writer.add(item)
        finish(writer)
    assert not item.info.sha256


def test_a_name_twice_in_a_step_is_not_written(tmp_path: Path) -> None:
    values = np.zeros(2, "f4")
    with pytest.raises(ParityError, match=r"a \(step 0\): this tap was recorded already"):
        write(tmp_path / "a.pb", Recording(CASE, pb.Provenance(), RUN, [tensor("a", values), tensor("a", values)]))
    assert not list(tmp_path.iterdir())


def test_arrays_of_any_memory_order_are_written_row_major_and_little_endian(tmp_path: Path) -> None:
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    variants = [values, values.astype(">f4"), np.asfortranarray(values), values[::-1, :, ::-1], values.T, values[:, 1]]
    write(
        tmp_path / "a.pb", Recording(CASE, pb.Provenance(), RUN, [tensor(f"a{i}", a) for i, a in enumerate(variants)])
    )
    for actual, expected in zip(read(tmp_path / "a.pb", digests=True), variants, strict=True):
        assert np.array_equal(actual.array, expected)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c.pb", Recording(CASE, pb.Provenance(), RUN, []))
    assert read(tmp_path / "a" / "b" / "c.pb").case == CASE


def test_a_written_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    write(tmp_path / "a.pb", Recording(CASE, pb.Provenance(), RUN, []))
    (tmp_path / "plain").touch()
    assert (tmp_path / "a.pb").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_payloads_reach_the_disk_while_more_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_golden.writer._PENDING_BYTES", 1 << 20)
    with Writer(tmp_path / "a.pb", digests=False) as writer:
        for i in range(16):
            writer.add(tensor(f"t{i}", np.zeros(1 << 20, "u1")))
        (temporary,) = tmp_path.iterdir()
        assert temporary.stat().st_size > 14 << 20
        finish(writer)
    assert [p.name for p in tmp_path.iterdir()] == ["a.pb"]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads change places at every chance, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_tensors_added_by_several_threads_are_each_whole(tmp_path: Path) -> None:
    def add(first: int) -> None:
        for i in range(first, 400, 8):
            writer.add(tensor(f"t{i}", np.full(i, i, "i4")))

    with Writer(tmp_path / "a.pb") as writer:
        threads = [threading.Thread(target=add, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        finish(writer)
    got = read(tmp_path / "a.pb", digests=True)
    assert sorted(t.info.name for t in got) == sorted(f"t{i}" for i in range(400))
    assert all(t.array.tolist() == [int(t.info.name[1:])] * len(t.array) for t in got)


def test_an_error_inside_leaves_nothing_and_is_not_dressed_up(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), Writer(tmp_path / "a.pb") as writer:
        writer.add(tensor("a", np.ones(3)))
        raise FileNotFoundError("a checkpoint, say")
    assert not list(tmp_path.iterdir())


def test_leaving_without_finish_leaves_nothing(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.pb") as writer:
        writer.add(tensor("a", np.ones(3)))
    assert not list(tmp_path.iterdir())


def test_an_error_keeps_the_file_that_was_there(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(golden.read_bytes())
    with pytest.raises(KeyError), Writer(path) as writer:
        writer.add(tensor("a", np.ones(3)))
        raise KeyError
    assert path.read_bytes() == golden.read_bytes()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("elements", [100, 1 << 20])
def test_a_full_disk_is_one_error_and_leaves_nothing(elements: int, tmp_path: Path) -> None:
    with files_of_at_most(512), pytest.raises(ParityError, match="the recording cannot be written"):
        tensors = [tensor(name, np.ones(elements)) for name in "abc"]
        write(tmp_path / "a.pb", Recording(CASE, pb.Provenance(), RUN, tensors))
    assert not list(tmp_path.iterdir())


def test_nothing_is_finished_after_a_payload_that_failed(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.pb") as writer:
        with files_of_at_most(512), pytest.raises(ParityError, match="cannot be written"):
            for step in range(1000):
                writer.add(tensor("a", np.ones(1 << 14), step=step))
        with pytest.raises(ParityError, match="cannot be written"):
            finish(writer)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_disk_that_fails_at_the_end_is_one_error_and_leaves_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(call, fail)
    with pytest.raises(ParityError, match="No space left on device"):
        write(tmp_path / "a.pb", Recording(CASE, pb.Provenance(), RUN, [tensor("a", np.ones(3))]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["file/a.pb", "folder"])
def test_a_place_that_cannot_hold_a_file_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ParityError, match="the recording cannot be written"):
        write(tmp_path / path, Recording(CASE, pb.Provenance(), RUN, []))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("elements", [2**31, 2**31 - 64])
def test_what_stock_protobuf_cannot_parse_is_refused_before_it_is_written(elements: int, tmp_path: Path) -> None:
    huge = np.broadcast_to(np.uint8(0), (elements,))
    with (
        pytest.raises(ParityError, match="too large for stock protobuf") as caught,
        Writer(tmp_path / "a.pb") as writer,
    ):
        writer.add(tensor("huge", huge))
    assert "huge" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_payloads_that_are_too_large_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FILE_BYTES", 3000)
    with Writer(tmp_path / "a.pb") as writer:
        writer.add(tensor("a", np.zeros(1500, "u1")))
        with pytest.raises(ParityError, match="at most 3000 bytes"):
            writer.add(tensor("b", np.zeros(1500, "u1")))


def test_metadata_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FILE_BYTES", 1600)
    with pytest.raises(ParityError, match="with metadata"):
        write(tmp_path / "a.pb", Recording(CASE, pb.Provenance(), RUN, [tensor("a", np.zeros(1500, "u1"))]))
    assert not list(tmp_path.iterdir())


WRONG = {
    "array of another dtype": tensor("a", np.ones(4, "f8"), dtype=pb.F32),
    "array of another dtype of the same size": Tensor(tensor("a", np.ones(4, "i4")).info, np.ones(4, "f4")),
    "array of another shape": Tensor(tensor("a", np.ones((2, 3))).info, np.ones((3, 2))),
    "axes of another shape": tensor("a", np.ones((2, 3)), axes=("row",)),
    "no dtype": Tensor(pb.Tensor(name="a", shape=[2], bytes=8), np.ones(2, "f4")),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_tensor_that_is_not_what_it_says_is_refused(what: str, tmp_path: Path) -> None:
    with Writer(tmp_path / "a.pb") as writer, pytest.raises(ParityError, match=r"a \(step 0\)"):
        writer.add(WRONG[what])


@pytest.mark.parametrize("field", ["mode", "arithmetic", "backend"])
def test_metadata_that_no_reader_takes_is_not_written(field: str, tmp_path: Path) -> None:
    case, run = pb.Case(), pb.Run()
    case.CopyFrom(CASE)
    run.CopyFrom(RUN)
    setattr(case if field == "mode" else run, field, 99)
    with pytest.raises(ParityError, match=f"the {field} of .* is not valid"):
        write(tmp_path / "a.pb", Recording(case, pb.Provenance(), run, []))
    assert not list(tmp_path.iterdir())


def test_a_case_that_needs_a_newer_schema_than_the_header_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    case = pb.Case(name="weights/x", mode=pb.WEIGHTS)
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE)
    with Writer(path) as writer, pytest.raises(ParityError, match=r"harness bug: .*older schema"):
        writer.finish(case, pb.Provenance(), run)
    assert not path.exists()
