"""Fresh cases: drawn from a seed, judged by the specification, the one that fails made small, saved and asked again."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, seed, settings
from rich.console import Console

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read, tensor, write
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.commands.conformance import _diagnosed as diagnosed
from qwen3_parity.conformance.drawn import Network, networks
from qwen3_parity.conformance.drawn_ops import OPS, VALUES, Op
from qwen3_parity.conformance.fresh import fresh, judged, strategy
from qwen3_parity.conformance.port import NoAnswerError
from qwen3_parity.conformance.run import CHECKPOINT, GOLDEN, Answers, Conformance, Fresh
from qwen3_parity.conformance.specified import write_checkpoint
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.by_reference import ITSELF
from qwen3_parity.report import conformance as report
from qwen3_reference.cases.op_specs import specified
from qwen3_reference.checkpoints.weights import canonical
from qwen3_spec import Arithmetic

EXAMPLES = GOLDEN_ROOT.parent / "examples"
SEEDS = (1, 2, 3)
TILE = 64
PLAIN = Network(
    mode=pb.CAUSAL,
    model_type="qwen3",
    layers=1,
    heads=(1, 1),
    head_dim=8,
    width=8,
    intermediate=8,
    vocab=16,
    biases=False,
    tied=True,
    window=0,
    windows_in=0,
    theta=1e4,
    factor=1.0,
    eps=1e-6,
    rotate_encoder_keys=True,
    steps=(2, 1),
    source=0,
    decoder_hidden=(0,),
    encoder_hidden=(),
    hole=False,
    first_position=0,
    ids="start",
    values="plain",
    seed=0,
)
Answer = Callable[[pb.ConformanceRequest], pb.ConformanceAnswer]


@pytest.fixture(scope="module")
def port() -> Iterator[tuple[Any, Answer]]:
    """The NumPy port's module, and what answers a request."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import numpy_port
        import numpy_process

        yield numpy_port, numpy_process.answer
    finally:
        sys.path.remove(str(EXAMPLES))


def run(answer: Answer, seed: int, count: int, save: Path, levels: tuple[str, ...] = ("causal",)) -> Fresh:
    cases = strategy(levels)
    assert cases is not None
    return fresh(lambda request, _: answer(request), cases, seed, count, save)


def wrong_head_dim(port: Any) -> tuple[Any, str, Any]:
    sound = port.rotate

    def rotate(x: Any, cos: Any, sin: Any) -> Any:
        turned = sound(x, cos, sin)
        turned[..., 64:] = x[..., 64:]
        return turned

    return port, "rotate", rotate


def one_tile_of_keys(port: Any) -> tuple[Any, str, Any]:
    sound = port.softmax
    return port, "softmax", lambda scores, mask: sound(scores, mask & (np.arange(mask.shape[-1]) < TILE))


def odd_length(port: Any) -> tuple[Any, str, Any]:
    sound = port.softmax

    def softmax(scores: Any, mask: Any) -> Any:
        probs = sound(scores, mask)
        if probs.shape[2] > 1 and probs.shape[2] % 2:
            probs[:, :, -1] = probs[:, :, -2]
        return probs

    return port, "softmax", softmax


def mask_of_another_row(port: Any) -> tuple[Any, str, Any]:
    sound = port.Qwen3.mask
    return (
        port.Qwen3,
        "mask",
        lambda self, layer, padding, query: sound(self, layer, padding[[0] * len(padding)], query),
    )


def denormals_flushed(port: Any) -> tuple[Any, str, Any]:
    sound = port.rms_norm

    def rms_norm(x: Any, weight: Any, eps: float) -> Any:
        return sound(np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x), weight, eps)

    return port, "rms_norm", rms_norm


def last_id_clipped(port: Any) -> tuple[Any, str, Any]:
    sound = port.Qwen3.forward

    def forward(self: Any, ids: Any, *rest: Any) -> Any:
        return sound(self, np.minimum(ids, self.config.vocab_size - 2), *rest)

    return port.Qwen3, "forward", forward


def keys(case: pb.Case) -> int:
    return sum(case.steps)


BUGS: dict[Callable[[Any], tuple[Any, str, Any]], Callable[[pb.Case], bool]] = {
    wrong_head_dim: lambda case: case.config.head_dim == 66 and keys(case) <= 4,
    one_tile_of_keys: lambda case: keys(case) == TILE + 1,
    odd_length: lambda case: keys(case) <= 4,
    mask_of_another_row: lambda case: keys(case) <= 4,
    denormals_flushed: lambda case: keys(case) <= 4,
    last_id_clipped: lambda case: keys(case) <= 4,
}
"""What is seeded into the NumPy port, and what the case that it is made small to must be like."""


@pytest.fixture(scope="module")
def odd(port: tuple[Any, Answer], tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """What fresh cases make of a port that is wrong for an odd number of queries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*odd_length(port[0]))
        return run(port[1], 7, 60, tmp_path_factory.mktemp("saved"))


def test_a_sound_port_passes(port: tuple[Any, Answer], tmp_path: Path) -> None:
    outcome = run(port[1], 4, 4, tmp_path)
    assert outcome.failure is None and outcome.judged == 4 and 0 < outcome.worst < 1
    assert not list(tmp_path.iterdir())


def test_a_bug_is_found_and_made_small(odd: Fresh) -> None:
    assert odd.failure is not None and odd.failure.message.startswith("divergence: decoder.layers.0.merged_attn.probs")
    case = read(odd.failure.golden).case
    assert case.steps == [3] and case.config.num_hidden_layers == 1 and BUGS[odd_length](case)


def wrapped_positions(port: Any) -> tuple[Any, str, Any]:
    sound = port.rope_tables
    return port, "rope_tables", lambda places, *rest: sound(np.asarray(places).astype(np.int16).astype(np.int64), *rest)


@pytest.fixture(scope="module")
def wrapped(port: tuple[Any, Answer], tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """What fresh cases make of a port whose positions are numbers of 16 bits: alone, a token looks turned backwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*wrapped_positions(port[0]))
        return run(port[1], 4, 40, tmp_path_factory.mktemp("wrapped"))


@pytest.mark.slow
def test_a_case_that_fails_is_kept_and_diagnosed_as_it_was_drawn(wrapped: Fresh) -> None:
    assert wrapped.drawn is not None and wrapped.failure is not None
    assert wrapped.drawn.answer is not None and wrapped.failure.answer is not None
    assert sum(read(wrapped.drawn.golden).case.steps) > sum(read(wrapped.failure.golden).case.steps) == 1
    diagnoses = diagnosed(wrapped)
    drawn, small = (
        {name for _, name in report.named(diagnoses[failure.name])} for failure in (wrapped.drawn, wrapped.failure)
    )
    assert drawn == {"table.wrapped_positions"} and small == {"table.negative_angle"}


@pytest.mark.slow
def test_the_terminal_and_json_have_both_and_say_which_to_believe(wrapped: Fresh) -> None:
    assert wrapped.drawn is not None and wrapped.failure is not None
    none, diagnoses = Conformance(Answers(), None, {}), diagnosed(wrapped)
    console = Console(width=400, file=StringIO())
    console.print(*report.terminal(none, wrapped, [], 0, None, diagnoses), sep="\n")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.index("fails as it was drawn: ") < text.index("made small: ")
    assert "    fix: " in text and "table.wrapped_positions" in text and "as it was drawn is to be believed" in text
    fresh = report.to_json(none, wrapped, [], 1, diagnoses)["fresh"]
    for key, name in (("drawn", "table.wrapped_positions"), ("failure", "table.negative_angle")):
        assert {mistake["name"] for mistake in fresh[key]["named"]} == {name} and name in fresh[key]["diagnosis"]
        assert Path(fresh[key]["golden"]).is_file() and Path(fresh[key]["answer"]).is_file()


def test_ids_beyond_sixteen_bits_are_among_the_fresh_ones(
    port: tuple[Any, Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = port[0].Qwen3.forward

    def forward(self: Any, ids: Any, *rest: Any) -> Any:
        return sound(self, ids.astype(np.uint16).astype(np.int64), *rest)

    monkeypatch.setattr(port[0].Qwen3, "forward", forward)
    drawn = set[Network]()
    quiet = settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck))

    def keep(network: Network) -> None:
        drawn.add(network)

    seed(1)(quiet(given(networks((pb.CAUSAL,)))(keep)))()
    beyond = [network for network in drawn if network.vocab > 0xFFFF]
    assert beyond and all(len(network.decoder_hidden) == 1 and sum(network.steps) <= 3 for network in beyond)
    message, _ = judged(lambda request, _: port[1](request), min(beyond, key=lambda network: network.name), tmp_path)
    assert message.startswith("divergence: decoder.embed_tokens")


def test_what_failed_is_saved_for_check_and_diagnose(odd: Fresh) -> None:
    assert odd.failure is not None and odd.failure.answer is not None
    golden, answer = read(odd.failure.golden, digests=True), read(odd.failure.answer, digests=True)
    diagnosis = diagnose(golden, answer, weights_of(golden, odd.failure.folder))
    assert diagnosis.verdicts.exit_code == 1
    assert [explained.fault.place for explained in diagnosis.faults] == ["decoder.layers.{layer}.merged_attn.probs"]
    done = CliRunner().invoke(
        main, ["check", str(odd.failure.golden), str(odd.failure.answer), "--model", str(odd.failure.checkpoint)]
    )
    assert done.exit_code == 1 and "against the specification" in done.output


def test_a_seed_draws_the_same_cases(port: tuple[Any, Answer], tmp_path: Path) -> None:
    def names(seed: int) -> list[str]:
        asked = []

        def answer(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
            asked.append(pb.Recording.FromString(request.recording).case.name)
            return port[1](request)

        run(answer, seed, 2, tmp_path)
        return asked

    assert names(7) == names(7) != names(8)


@pytest.mark.slow
def test_what_is_not_supported_is_not_counted(port: tuple[Any, Answer], tmp_path: Path) -> None:
    def causal(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
        if pb.Recording.FromString(request.recording).case.mode == pb.ENCODER:
            return pb.ConformanceAnswer(id=request.id, unsupported="ENCODER")
        return port[1](request)

    outcome = run(causal, 1, 3, tmp_path, ("causal", "encoder"))
    assert outcome.judged == 3 and set(outcome.unsupported) == {"encoder"} and outcome.failure is None
    outcome = run(causal, 1, 5, tmp_path, ("encoder",))
    assert outcome.judged == 0 and outcome.failure is None


UNSUPPORTED = """
import numpy_process
right = numpy_process.answer
def answer(request):
    if b"fresh/" in request.recording:
        return numpy_process.pb.ConformanceAnswer(id=request.id, unsupported="no such sizes")
    return right(request)
numpy_process.answer = answer
numpy_process.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [("--fresh", "3"), ("--seed", "1")])
def test_fresh_cases_asked_for_and_not_answered_are_no_success(asked: tuple[str, str], tmp_path: Path) -> None:
    port = tmp_path / "port.py"
    port.write_text(f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\n{UNSUPPORTED}")
    junit = tmp_path / "junit.xml"
    words = ["conformance", "--only", "op/rms_norm", "--junit", str(junit), "--", sys.executable, str(port)]
    assert CliRunner().invoke(main, words).exit_code == 0
    done = CliRunner().invoke(main, [*words[:1], *asked, *words[1:]])
    assert done.exit_code == 1 and "fresh cases were asked for, and none was answered" in done.output
    assert "none was answered" in junit.read_text()


def test_fresh_cases_of_levels_that_have_none_are_refused() -> None:
    for asked in (["--fresh", "3"], ["--seed", "1"]):
        done = CliRunner().invoke(main, ["conformance", "--level", "reader", *asked, "--", "no-port"])
        assert done.exit_code == 2 and "no fresh case is drawn for reader" in done.output


def test_levels_without_networks_have_no_fresh_cases() -> None:
    assert strategy(("reader", "tokenizer")) is None and strategy(()) is not None


def test_a_port_that_says_an_error_fails(tmp_path: Path) -> None:
    outcome = run(lambda request: pb.ConformanceAnswer(id=request.id, error="no kernel"), 1, 5, tmp_path)
    assert (
        outcome.failure is not None and outcome.failure.message == "error: no kernel" and outcome.failure.answer is None
    )


def test_a_port_that_hangs_is_asked_a_few_times_more(tmp_path: Path) -> None:
    asked = []

    def ask(request: pb.ConformanceRequest, name: str) -> pb.ConformanceAnswer:
        asked.append(name)
        raise NoAnswerError("gives no answer in 60 s", late=True)

    cases = strategy(("ops",))
    assert cases is not None
    outcome = fresh(ask, cases, 1, 20, tmp_path)
    assert outcome.failure is not None and outcome.failure.message == "gives no answer in 60 s" and len(asked) <= 7


SMALL = {
    "one visible key, its score by cancellation": {
        "head_dim": 64,
        "width": 65,
        "intermediate": 67,
        "vocab": 17,
        "biases": True,
        "theta": 250000.0,
        "factor": 40.0,
        "steps": (11, 1),
        "decoder_hidden": (11,),
        "first_position": 4096,
        "ids": "end",
        "values": "huge",
        "seed": 585,
    },
    "one channel of one token": {
        "layers": 2,
        "head_dim": 6,
        "width": 7,
        "intermediate": 1,
        "vocab": 129,
        "eps": 1e-5,
        "steps": (1,),
        "first_position": 7,
        "values": "equal rows",
    },
}
"""Cases of which one run in plain float32 said too little: a sound port was accused."""


@pytest.mark.parametrize("kind", SMALL)
def test_floors_of_single_numbers_are_those_of_rounding(kind: str, port: tuple[Any, Answer], tmp_path: Path) -> None:
    drawn = Network(**{**vars(PLAIN), **SMALL[kind]})
    message, share = judged(lambda request, _: port[1](request), drawn, tmp_path)
    assert message == "" and share is not None and share < 0.7


def test_a_golden_of_the_specification_has_floors_digests_and_parameters(tmp_path: Path) -> None:
    PLAIN.write(tmp_path)
    golden = read(tmp_path / GOLDEN, digests=True)
    assert golden.provenance.producer == "qwen3_spec" and golden.parameters
    floats = [item for item in golden if item.is_float and item.info.op not in ("embedding", "input")]
    assert floats and all(item.info.HasField("floor") for item in floats)
    verdicts = check(golden, golden, weights_of(golden, tmp_path))
    assert verdicts.word == "parity" and verdicts.notes == (
        "judged against the specification, not Hugging Face",
        ITSELF,
    )


@pytest.mark.slow
def test_the_command_saves_diagnoses_and_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "import numpy_port, numpy_process\n"
        "right = numpy_port.softmax\n"
        "numpy_port.softmax = lambda scores, mask: right(scores, mask) * numpy_port.np.float32(1.01)\n"
        "numpy_process.main()\n"
    )
    words = ["conformance", "--only", "training/tied", "--seed", "3", "--fresh", "3", "--junit", "j.xml", "--"]
    done = CliRunner().invoke(main, [*words, sys.executable, str(wrong)])
    assert done.exit_code == 1
    assert "nothing was judged" in done.output  # the port has no training, and nobody goes on with it
    words[2] = "decoder/multiples_of_256"
    done = CliRunner().invoke(main, [*words, sys.executable, str(wrong)])
    assert done.exit_code == 1 and "fresh cases from seed 3" in done.output and "probs" in done.output
    golden = min((tmp_path / "build" / "fresh").glob("*/golden.pb"), key=lambda path: sum(read(path).case.steps))
    assert len(list((tmp_path / "build" / "fresh").iterdir())) <= 2
    name = read(golden).case.name
    assert 'classname="fresh" name="seed_3"' in (tmp_path / "j.xml").read_text() and name in done.output
    again = ["conformance", "--case", str(golden), "--"]
    done = CliRunner().invoke(main, [*again, sys.executable, str(wrong)])
    assert done.exit_code == 1 and f"{name}: divergence" in done.output
    done = CliRunner().invoke(main, [*again, sys.executable, str(EXAMPLES / "numpy_process.py")])
    assert done.exit_code == 0 and "parity in 1 of 1 cases" in done.output


def test_without_hypothesis_fresh_cases_are_refused_where_somebody_asks_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qwen3_parity.commands.conformance.find_spec", lambda _: None)
    done = CliRunner().invoke(main, ["conformance", "--fresh", "3", "--", "no-port"])
    assert done.exit_code == 2 and "drawn by hypothesis" in done.output and "--fresh 0" in done.output
    monkeypatch.setattr("qwen3_parity.conformance.port.Port.ask", lambda _, request, name: own_golden(request))
    done = CliRunner().invoke(main, ["conformance", "--level", "reader", "--", "no-port"])
    assert done.exit_code == 0
    done = CliRunner().invoke(main, ["conformance", "--level", "ops", "--", "no-port"])
    assert "no fresh cases: fresh cases are drawn by hypothesis" in done.output


def own_golden(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
    name = pb.Recording.FromString(request.recording).case.name
    return pb.ConformanceAnswer(id=request.id, recording=(GOLDEN_ROOT / "cases" / f"{name}.pb").read_bytes())


OP = Op("linear", 2, 3, 5, (4, 2), 8, 17, 7, True, 2, 4096, "plain", 3)
PAIRS = Arithmetic(np.float32, np.matmul, lambda a: np.sum(a, axis=-1, dtype=np.float32))


def answered(request: pb.ConformanceRequest, outputs: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.pb"
        file.write_bytes(request.recording)
        golden = read(file)
        results = outputs({item.info.name: item.array for item in golden})
        taps = [*golden, *(tensor(name, np.ascontiguousarray(array)) for name, array in results.items())]
        said = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN, materialised=golden.run.materialised)
        write(file, Recording(golden.case, pb.Provenance(producer="test"), said, taps))
        return pb.ConformanceAnswer(id=request.id, recording=file.read_bytes())


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("op", OPS)
def test_every_op_alone_passes_in_float32_whatever_its_values(op: str, tmp_path: Path) -> None:
    for values in VALUES:
        drawn = replace(OP, op=op, values=values)

        def computed(inputs: dict[str, Any], drawn: Op = drawn) -> dict[str, Any]:
            results = specified(op, inputs, OPS[op].attributes(drawn), PAIRS)
            return {name: a.astype(np.float32) if a.dtype.kind == "f" else a for name, a in results.items()}

        message, share = judged(lambda request, _: answered(request, computed), drawn, tmp_path / values)
        assert message == "" and share is not None and share < 0.7


def test_an_op_that_loses_inputs_beyond_a_tile_is_made_small(tmp_path: Path) -> None:
    def answer(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
        if pb.Recording.FromString(request.recording).case.op != "linear":
            return pb.ConformanceAnswer(id=request.id, unsupported="op")

        def product(inputs: dict[str, Any]) -> dict[str, Any]:
            y = inputs["input.x"][..., :TILE] @ inputs["parameter.weight"][:, :TILE].T
            return {"output.y": y + inputs.get("parameter.bias", np.float32(0))}

        return answered(request, product)

    outcome = run(answer, 4, 60, tmp_path, ("ops",))
    assert outcome.failure is not None and outcome.failure.checkpoint is None
    golden = read(outcome.failure.golden)
    assert golden["input.x", 0].array.shape == (1, 1, TILE + 1) and golden["parameter.weight", 0].array.shape[0] == 1


@pytest.mark.slow
def test_an_op_that_fails_is_saved_and_diagnosed_by_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ask(_: object, request: pb.ConformanceRequest, name: str) -> pb.ConformanceAnswer:
        if not name.startswith("fresh/"):
            return own_golden(request)
        if not name.startswith("fresh/linear"):
            return pb.ConformanceAnswer(id=request.id, unsupported="op")
        return answered(request, lambda inputs: {"output.y": inputs["input.x"] @ inputs["parameter.weight"].T})

    monkeypatch.setattr("qwen3_parity.conformance.port.Port.ask", ask)
    words = ["conformance", "--level", "ops", "--only", "op/linear", "--seed", "1", "--fresh", "60"]
    words += ["--save", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, [*words, "--", "no-port"])
    failure = json.loads(done.stdout)["fresh"]["failure"]
    assert done.exit_code == 1 and failure["case"].startswith("fresh/linear")
    done = CliRunner().invoke(main, [*words[:-1], "--", "no-port"])
    assert done.exit_code == 1 and "bias" in done.output and failure["case"] in done.output
    assert CliRunner().invoke(main, ["check", failure["golden"], failure["answer"]]).exit_code == 1


def hugging_face(request: pb.ConformanceRequest) -> pb.ConformanceAnswer:
    """Hugging Face's own network as a port: what a request brings goes into a checkpoint that it loads."""
    from qwen3_reference.capture.record import record_request

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "case.pb").write_bytes(request.recording)
        golden = read(folder / "case.pb")
        inputs = {item.info.name: item.array for item in golden if item.info.name.startswith("input.")}
        roles = [role for role in ("encoder", "decoder") if f"input.{role}_input_ids" in inputs]
        directory = folder / CHECKPOINT
        write_checkpoint(
            golden.case.config, lambda name, _: golden[f"parameter.{canonical(roles[-1], name)}", 0].array, directory
        )
        record_request(
            directory if "encoder" in roles else None,
            directory if "decoder" in roles else None,
            inputs,
            tuple(golden.case.steps),
            folder / "answer.pb",
            floors=False,
            rotate_encoder_keys=golden.case.config.rotate_encoder_keys,
            name=golden.case.name,
            labels=[CHECKPOINT] * len(roles),
        )
        return pb.ConformanceAnswer(id=request.id, recording=(folder / "answer.pb").read_bytes())


NETWORKS = ("causal", "encoder", "encoder-decoder")


def test_the_specifications_golden_is_what_hugging_face_computes(tmp_path: Path) -> None:
    outcome = run(hugging_face, 9, 2, tmp_path, NETWORKS)
    assert outcome.failure is None and outcome.judged == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_hugging_face_passes_60_fresh_cases_under_each_seed(seed: int, tmp_path: Path) -> None:
    outcome = run(hugging_face, seed, 60, tmp_path, NETWORKS)
    assert outcome.failure is None and outcome.judged == 60 and outcome.worst < 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_within_200_cases_under_each_seed(
    bug: Callable[[Any], tuple[Any, str, Any]],
    seed: int,
    port: tuple[Any, Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(*bug(port[0]))
    outcome = run(port[1], seed, 200, tmp_path)
    assert outcome.failure is not None and BUGS[bug](read(outcome.failure.golden).case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_sound_port_passes_200_cases_under_each_seed(seed: int, port: tuple[Any, Answer], tmp_path: Path) -> None:
    outcome = run(port[1], seed, 200, tmp_path)
    assert outcome.failure is None and outcome.judged == 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_port_that_turns_by_angles_of_its_own_passes(
    seed: int, port: tuple[Any, Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frequencies that are an ulp larger than the golden's, as another library's power may be."""
    import numpy_process

    sound, factory = port[0].frequencies, port[0].factory

    def frequencies(config: Any) -> Any:
        inv_freq, factor = sound(config)
        return np.nextafter(inv_freq, np.float32(9)), factor

    def turning(case: Any, checkpoints: Any) -> Any:
        runner = factory(case, checkpoints)
        inv_freq, factor = frequencies(case.config)

        def run(case: Any, inputs: Any, tap: Any, asked: Any) -> None:
            angles = inputs["input.decoder_position_ids"][..., None].astype(np.float32) * np.tile(inv_freq, 2)
            tables = {"decoder.cos": np.cos(angles), "decoder.sin": np.sin(angles)}
            turned = {name: table * np.float32(factor) for name, table in tables.items()}
            runner(case, dict(inputs) | turned, tap, asked)

        run.run = runner.run  # type: ignore[attr-defined]
        run.run.golden_tables = False  # type: ignore[attr-defined]
        return run

    monkeypatch.setattr(port[0], "frequencies", frequencies)
    monkeypatch.setattr(numpy_process, "factory", turning)
    outcome = run(port[1], seed, 60, tmp_path)
    assert outcome.failure is None and outcome.judged == 60
