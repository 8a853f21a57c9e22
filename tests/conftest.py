"""Collected once, and not walked by the garbage collector; long files come first; of tests with many parameters
`make test` runs a sample, and property tests draw the same examples each time.
"""

import gc
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("fresh", derandomize=False, database=None, deadline=None, print_blob=True)
"""`make slow` draws by this one; what it finds is kept, as `@example` beside the test's `@given`."""
settings.load_profile("same")


LONG = ("tests/ports/", "tests/test_document_commands", "tests/parity/test_parity_components", "tests/tools/")
"""Where a file can take half a minute: begun last, one process would wait for the other."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """The collector leaves out what lives until the end: PyTorch, Hugging Face's modules, ten thousand tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # what tests leave behind is little
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before anybody leaves out tests, or puts them in another order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first; `sample(every=n)`: the first of each n parameters stay as they are, others become slow.

    Where parameters are multiplied, n has no divisor in common with how many the inner ones are: all of them come up.
    """
    items.sort(key=lambda item: next((at for at, path in enumerate(LONG) if item.nodeid.startswith(path)), len(LONG)))
    counts = Counter[str]()
    for item in items:
        sample = item.get_closest_marker("sample")
        if sample is None or item.get_closest_marker("slow"):
            continue
        test = item.nodeid.partition("[")[0]
        if counts[test] % sample.kwargs["every"]:
            item.add_marker("slow")
        counts[test] += 1
