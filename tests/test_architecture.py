"""The floors of the house: who may import whom, and what the files may look like. Read from the source, never run."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOMES = {
    "qwen3_golden": "golden",
    "qwen3_spec": "reference",
    "qwen3_reference": "reference",
    "qwen3_encdec": "impl",
    "qwen3_parity": "tools",
    "detection": "tests",
}
# What each package may import beside the standard library and itself.
ALLOWED = {
    "qwen3_golden": {"numpy", "google"},
    "qwen3_spec": {"numpy"},
    "qwen3_reference": {"numpy", "torch", "transformers", "tokenizers", "safetensors", "accelerate", "qwen3_golden",
        "qwen3_spec"},
    "qwen3_encdec": {"torch", "transformers", "safetensors", "huggingface_hub", "jinja2"},
    "qwen3_parity": {*("numpy", "google", "torch", "transformers", "safetensors", "huggingface_hub", "click", "rich",
        "jinja2", "threadpoolctl", "pytest", "hypothesis"),
        *("qwen3_golden", "qwen3_spec", "qwen3_reference", "qwen3_encdec")},
    "detection": {*("numpy", "google", "torch", "transformers", "safetensors", "accelerate"),
        *("click", "rich", "jinja2", "threadpoolctl"),
        *("qwen3_golden", "qwen3_spec", "qwen3_reference", "qwen3_encdec", "qwen3_parity")},
}  # fmt: skip
# Hugging Face's own network, its mask builders and its RoPE variants: the reference's alone.
HF_NETWORK = re.compile(
    r"transformers\.(models(?!\.auto\b)|masking_utils|modeling_rope_utils|modeling_attn_mask_utils)"
)
NETWORK_NAMES = re.compile(
    r"Qwen2|Qwen3(?!EncoderDecoder)|T5Gemma|create_.*mask|ROPE_INIT_FUNCTIONS|dynamic_rope_update"
)
PACKAGES = sorted(HOMES)


def sources(package: str) -> list[Path]:
    return sorted(p for p in (ROOT / HOMES[package] / package).rglob("*.py") if p.name != "golden_pb2.py")


class Parsed(NamedTuple):
    """What is asked of a file: its imports, also those inside functions, and the branches of each function."""

    imports: list[ast.Import | ast.ImportFrom]
    branches: list[tuple[str, int]]


@cache
def parsed(path: Path) -> Parsed:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    functions = [(node.name, branches(node)) for node in nodes if isinstance(node, ast.FunctionDef)]
    return Parsed([node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)], functions)


def imports(path: Path) -> Iterator[str]:
    """Every imported module as a dotted name, `from m import n` as m.n; also those inside functions."""
    for node in parsed(path).imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            if node.level == 0:  # a relative import stays inside its package
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            assert node.level < 2, f"{path}: an import from above the package"


def tracked() -> list[Path]:
    """The files that are committed or about to be."""
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in out.stdout.splitlines() if (ROOT / line).is_file()]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_floor_allows(package: str) -> None:
    allowed = ALLOWED[package] | {package} | sys.stdlib_module_names
    wrong = [f"{p.name}: {m}" for p in sources(package) for m in imports(p) if m.split(".")[0] not in allowed]
    assert not wrong


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - {"qwen3_reference"}))
def test_only_the_reference_imports_hugging_faces_network(package: str) -> None:
    wrong = [
        f"{p.name}: {m}"
        for p in sources(package)
        for m in imports(p)
        if HF_NETWORK.match(m) or (m.startswith("transformers.") and NETWORK_NAMES.match(m.rsplit(".", 1)[-1]))
    ]
    assert not wrong


def test_the_independent_tokenizer_shares_no_code_with_anybodys() -> None:
    folder = ROOT / "impl" / "qwen3_encdec" / "tokenizer"
    allowed = sys.stdlib_module_names | {"jinja2", "qwen3_encdec"}
    wrong = [f"{p.name}: {m}" for p in folder.glob("*.py") for m in imports(p) if m.split(".")[0] not in allowed]
    assert folder.is_dir() and not wrong
    outside = re.compile(r"from \.\.|qwen3_encdec\.(?!tokenizer|regular_file)")
    assert not [p.name for p in folder.glob("*.py") if outside.search(p.read_text())]


# Who may import whom: a room reads the rooms named before it, and only those that stand beside it.
ROOMS = {
    "qwen3_parity": {
        "judge": (),
        "text": ("judge",),
        "blame": ("judge",),
        "slices": ("judge",),
        "checkpoints": ("text",),
        "check": ("judge", "text", "blame", "slices"),
        "mistakes": ("judge", "blame"),
        "diagnosis": ("judge", "text", "blame", "slices", "check", "mistakes"),
        "recording": ("judge", "text", "slices", "checkpoints", "check", "diagnosis"),
        "folder": ("judge", "text", "checkpoints", "check", "diagnosis"),
        "conformance": ("judge", "text", "slices", "checkpoints", "check", "folder"),
        "report": ("judge", "text", "slices", "checkpoints", "diagnosis", "folder", "conformance"),
        "plugin": ("judge", "text", "checkpoints", "check", "recording", "folder", "report"),
        "commands": (
            *("judge", "text", "checkpoints", "check"),
            *("diagnosis", "recording", "folder", "conformance", "report"),
        ),
        "cli": ("commands", "report"),
        "__main__": ("cli",),
    },
    "detection": {
        "command": (),
        "draws": (),
        "reasons": (),
        "real_size": (),
        "derived": ("command", "reasons"),
        "mechanical": ("command", "reasons"),
        "mutants": ("command", "reasons"),
        "kernels": ("command", "mutants"),
        "levels": ("command", "derived", "kernels", "mechanical", "mutants"),
        "blind": ("command", "draws", "levels", "mutants"),
        "unseen": ("command", "draws", "levels", "mutants"),
        "honest": ("command", "levels"),
        "gates": ("command", "draws", "honest", "mutants"),
        "devices": ("command", "honest", "real_size"),
        "families": ("command", "draws"),
        "ported": ("command", "draws", "families"),
    },
    "qwen3_reference": {
        "versions": (),
        "quiet": (),
        "caches": (),
        "binding": (),
        "provenance": (),
        "torch_tensors": (),
        "checkpoints": ("quiet",),
        "cases": ("caches", "checkpoints"),
        "floors": ("checkpoints", "cases"),
        "capture": (
            *("versions", "quiet", "caches", "binding", "provenance", "torch_tensors"),
            *("checkpoints", "cases", "floors"),
        ),
        "graph": (
            *("versions", "quiet", "caches", "provenance", "torch_tensors"),
            *("checkpoints", "cases", "capture"),
        ),
        "tokenization": ("versions", "provenance", "checkpoints", "capture"),
        "vocabulary": (),
        "__main__": ("cases", "capture", "graph", "tokenization"),
    },
}
FACES = {
    "qwen3_parity": {"judge", "blame", "check", "checkpoints", "diagnosis", "recording"},
    "qwen3_reference": set[str](),
    "detection": set[str](),
}
"""What a package's own `__init__` shows of its rooms."""


def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    home = ROOT / HOMES[package]
    named = {".".join(p.relative_to(home).with_suffix("").parts): p for p in sources(package)}
    if package == "qwen3_golden":
        named["qwen3_golden.golden_pb2"] = home / package / "golden_pb2.pyi"  # generated; it imports nothing of ours
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imported_modules(package: str) -> dict[str, set[str]]:
    """The modules of the package that each of them imports, types for checkers included."""
    known, reads = modules(package), dict[str, set[str]]()
    for name, path in known.items():
        parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets = set(imports(path))
        for node in parsed(path).imports:
            if isinstance(node, ast.ImportFrom) and node.level:
                above = ".".join(parent.split(".")[: len(parent.split(".")) - node.level + 1])
                base = f"{above}.{node.module}" if node.module else above
                targets |= {f"{base}.{alias.name}" for alias in node.names}
        reads[name] = {known_part(target, known) for target in targets} - {name, ""}
    return reads


def known_part(target: str, known: Collection[str]) -> str:
    """The module that a dotted name stands in, "" for another package's."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_a_room_reads_only_the_rooms_below_it(package: str) -> None:
    order = list(ROOMS[package])
    assert all(order.index(below) < order.index(folder) for folder, read in ROOMS[package].items() for below in read)
    wrong = []
    for module, targets in imported_modules(package).items():
        folder = module.split(".")[1] if "." in module else ""
        allowed = {*ROOMS[package][folder], folder} if folder else FACES[package]
        wrong += [f"{module}: {t}" for t in targets if t != package and t.split(".")[1] not in allowed]
    assert not wrong


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_the_table_names_every_room(package: str) -> None:
    folder = ROOT / HOMES[package] / package
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert there == {*ROOMS[package], "__init__"}


def test_the_judge_has_at_most_twelve_rooms_and_five_files_beside_them() -> None:
    folder = ROOT / "tools" / "qwen3_parity"
    assert len([path for path in folder.iterdir() if (path / "__init__.py").is_file()]) <= 12
    assert len(list(folder.glob("*.py"))) <= 5


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_by_a_detour(package: str) -> None:
    reads = imported_modules(package)
    assert any(reads.values())
    try:
        tuple(TopologicalSorter(reads).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


SEEDED = tuple(f"detection/{folder}" for folder in ("mutants", "mechanical", "kernels", "blind", "unseen", "ported"))
SOUGHT = (
    *("qwen3_parity/mistakes", "qwen3_parity/diagnosis/findings"),
    *(f"qwen3_parity/diagnosis/findings/{folder}" for folder in ("numbers", "provenance", "structure")),
    *("qwen3_parity/blame", "qwen3_parity/diagnosis"),
)
PLUGGED_IN = {"judged.py", "run.py", "isolated.py"}
"""Where the judge is handed what was seeded."""


@pytest.mark.parametrize(
    ("folders", "others"),
    [(SEEDED, (*SOUGHT[:2], "qwen3_spec")), (("detection/honest",), SOUGHT[:2]), (SOUGHT, ("detection",))],
)
def test_what_is_seeded_and_what_is_sought_share_no_code(folders: tuple[str, ...], others: tuple[str, ...]) -> None:
    forbidden = re.compile(rf"({'|'.join(others).replace('/', '.')})(\.|$)")
    by_folder = {folder: list((ROOT / HOMES[folder.split("/")[0]] / folder).glob("*.py")) for folder in folders}
    files = [path for paths in by_folder.values() for path in paths]
    wrong = [f"{p.parent.name}/{p.name}: {m}" for p in files for m in imports(p) if forbidden.match(m)]
    assert all(by_folder.values()) and not [
        line for line in wrong if line.split("/")[1].split(":")[0] not in PLUGGED_IN
    ]


def test_seeded_and_sought_mistakes_of_tokenizers_share_no_code() -> None:
    judge = ROOT / "tools" / "qwen3_parity"
    sought = re.compile(r"qwen3_parity\.(text\.(stages?|table|mistakes|blame|oracle)|diagnosis|report)(\.|$)")
    seeded = re.compile(r"detection(\.|$)")
    seekers = [*(judge / "text").rglob("*.py"), judge / "diagnosis" / "text.py"]
    seeds = list((ROOT / "tests" / "detection" / "mutants" / "text").glob("*.py"))
    wrong = [(p.name, m) for p in seeds for m in imports(p) if sought.match(m)]
    wrong += [(p.name, m) for p in seekers for m in imports(p) if seeded.match(m)]
    assert seeds and not wrong


READ_BY_DETECTION = {
    "command": ("cli",),
    "honest": ("judge", "blame", "checkpoints", "check", "recording", "report"),
    "devices": ("judge", "checkpoints", "check", "recording", "report"),
    "families": ("diagnosis", "recording", "report", "slices"),
    "ported": ("diagnosis", "report", "slices"),
    "derived": ("judge", "text", "blame", "checkpoints", "mistakes", "diagnosis", "report"),
    "mechanical": ("checkpoints", "check", "diagnosis", "recording", "report"),
    "mutants": ("judge", "text", "blame", "checkpoints", "check", "diagnosis", "recording", "report"),
    "kernels": ("report",),
    "levels": ("checkpoints", "check", "diagnosis", "mistakes", "recording", "report"),
    "blind": ("diagnosis", "recording", "report"),
    "unseen": ("diagnosis", "report"),
    "gates": ("check", "judge", "recording", "report"),
}
"""The judge's rooms that each part of `detection` runs."""


def test_what_tests_the_judge_reads_only_the_rooms_that_it_runs() -> None:
    known, wrong = modules("qwen3_parity"), []
    for name, path in modules("detection").items():
        folder = name.split(".")[1] if "." in name else ""
        rooms = {known_part(m, known).split(".")[1] for m in imports(path) if m.startswith("qwen3_parity.")}
        wrong += [f"{name}: {read}" for read in rooms - {*READ_BY_DETECTION.get(folder, ())}]
    assert not wrong


def test_no_wheel_holds_what_tests_the_judge() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    built = table["tool"]["hatch"]["build"]["targets"]
    assert sorted(built["wheel"]["packages"]) == sorted(
        f"{home}/{name}" for name, home in HOMES.items() if home != "tests"
    )
    assert "force-include" not in built["wheel"] and "detection" not in str(table["project"].get("scripts"))
    product = [path for package in PACKAGES if package != "detection" for path in sources(package)]
    assert not [f"{p.name}: {m}" for p in product for m in imports(p) if m.split(".")[0] == "detection"]
    assert not [p.name for p in product if re.search(r"[\"']detection(\.|[\"'])", p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_unpickled(package: str) -> None:
    unsafe = re.compile(r"\b(pickle|torch\.load|allow_pickle\s*=\s*True|joblib|marshal|np\.load|numpy\.load)\b")
    files = [p for p in sources(package) if p.relative_to(ROOT).as_posix() != SGLANG]
    assert not [p.name for p in files if unsafe.search(p.read_text(encoding="utf-8"))]


SGLANG = "tools/qwen3_parity/recording/dumps/sglang.py"


def test_the_one_call_of_torchs_loader_makes_tensors_alone() -> None:
    tree = ast.parse((ROOT / SGLANG).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]
    assert [
        {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}.get("weights_only") for call in calls
    ] == ["True"]
    assert len(re.findall(r"\b(torch\.load|from torch\b|serialization)\b", ast.unparse(tree))) == len(calls)
    assert not re.search(r"\b(pickle|joblib|marshal)\b", ast.unparse(tree))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_file_holds_one_idea(package: str) -> None:
    assert not [p.name for p in sources(package) if len(p.read_text(encoding="utf-8").splitlines()) > 400]


BRANCHES = 20
"""Ways through a function, and the functions within it, counted as below; ruff's C901 counts statements alone."""


def branches(function: ast.AST) -> int:
    """Statements, conditions, what and and or join, and what comprehensions go through and leave out."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        else:
            count += isinstance(node, ast.If | ast.IfExp | ast.For | ast.While | ast.ExceptHandler | ast.match_case)
    return count


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_has_more_than_twenty_branches(package: str) -> None:
    counts = [(path.name, name, count) for path in sources(package) for name, count in parsed(path).branches]
    assert counts and not [function for function in counts if function[-1] > BRANCHES]


@pytest.mark.parametrize("folder", ["golden", "impl", "reference", "tools"])
def test_code_lives_in_packages_never_loose_in_a_floor(folder: str) -> None:
    assert not list((ROOT / folder).glob("*.py"))


def test_no_file_names_the_machine_it_was_written_on() -> None:
    # spelled in pieces, so that this file does not name them either
    places = re.compile(
        "|".join(("/" + "work/", "/" + "root/", "/" + "home/", r"/" + r"tmp/(?!\W)", r"/\." + "library"))
    )
    text = [p for p in tracked() if p.suffix in {".py", ".md", ".toml", ".proto", ".textproto", ".json", ""}]
    wrong = [str(p.relative_to(ROOT)) for p in text if places.search(p.read_text(encoding="utf-8", errors="replace"))]
    assert not wrong


CLOCK = re.compile(r"\b(perf_counter|process_time|thread_time|monotonic|timeit|time\.time)\b")
PRINTED = {
    *("test_parity_real_size.py", "test_parity_initialize_real_size.py", "test_parity_larger_than_memory.py"),
    "test_real_size.py",
}
"""They print what a step took, for the README's figures, and assert nothing of it."""


def test_no_test_asserts_a_time() -> None:
    others = {*(ROOT / "tests" / "benchmarks").glob("*.py"), *sources("detection"), Path(__file__)}  # no tests
    tests = [p for p in (ROOT / "tests").rglob("*.py") if p not in others]
    reading = {p.name: ast.parse(p.read_text(encoding="utf-8")) for p in tests if CLOCK.search(p.read_text("utf-8"))}
    assert set(reading) <= PRINTED
    asserted = [
        ast.unparse(node) for tree in reading.values() for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]
    assert asserted and not [text for text in asserted if re.search(r"seconds|ratio|perf_counter|start\b", text)]


def test_benchmarks_run_in_make_bench_alone() -> None:
    benchmarks = list((ROOT / "tests" / "benchmarks").glob("test_bench_*.py"))
    for path in benchmarks:
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^pytestmark = .*pytest\.mark\.bench\b", text, re.MULTILINE), path.name
        assert "mark.slow" not in text, path.name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert benchmarks and len(re.findall(r"\bbench(marks|mark)?\b.*pytest|pytest.*\bbench\b", makefile)) == 1


def test_the_contract_that_is_released_is_the_one_that_is_committed() -> None:
    """Otherwise write both: python -m qwen3_golden.manifest --write."""
    manifest = (ROOT / "golden" / "MANIFEST.textproto").read_bytes()
    released = (ROOT / "golden" / "qwen3_golden" / "released.txt").read_text(encoding="ascii")
    assert released.strip() == hashlib.sha256(manifest).hexdigest()
