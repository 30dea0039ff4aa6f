"""Records which tests run which lines, for `bench/mutants.py python --covered`.

Runs the tests once under coverage.py with a context per test. Writes {file: {line: [test, …]}} and the duration of each
test. Code in child processes (CLI commands, file readers) is not recorded.

    pip install '.[test,bench]' && python bench/covered_by.py --into covered.json tests/runs tests/services …

The default is all tests. Takes about twice as long as the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = "FIELDMARK_COVERED_FOLDER"


class _Recorder:
    """A pytest plugin that records the lines each test runs, and writes them when the session ends."""

    def __init__(self, into: Path) -> None:
        import coverage

        self._into = into
        self._seconds: dict[str, float] = {}
        self._coverage = coverage.Coverage(data_file=None, source=[str(ROOT / "backend/fieldmark")], config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that fails without a mutant is not used.
        durations = self._seconds.get(report.nodeid, 0.0) + report.duration
        self._seconds[report.nodeid] = durations if report.passed else float("inf")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        ran = {
            str(Path(file).relative_to(ROOT)): {
                str(line): [test for test in tests if test] for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        recorded = {"seconds": self._seconds, "ran": ran}
        (self._into / f"{os.getpid()}.json").write_text(json.dumps(recorded), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    # The xdist controller runs no tests.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(_Recorder(Path(os.environ[FOLDER])))


def merge_recordings(folder: Path) -> dict[str, Any]:
    """Return {"seconds": {test: seconds}, "ran": {file: {line: [test, …]}}} of all recorded tests that passed."""
    seconds: dict[str, float] = {}
    ran: dict[str, dict[str, list[str]]] = {}
    recorded = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))]
    for one in recorded:
        seconds |= {test: durations for test, durations in one["seconds"].items() if durations != float("inf")}
    for one in recorded:
        for file, lines in one["ran"].items():
            for line, tests in lines.items():
                ran.setdefault(file, {}).setdefault(line, []).extend(test for test in tests if test in seconds)
    return {"seconds": seconds, "ran": ran}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"])
    parser.add_argument("--into", type=Path, default=Path("covered.json"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fieldmark-covered-") as folder:
        os.environ[FOLDER] = folder
        here = str(Path(__file__).parent)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        sys.path.insert(0, here)
        arguments = ["-p", "covered_by", "-p", "no:cacheprovider", "--tb=no", f"-n{options.workers}", *options.tests]
        pytest.main(["--override-ini=timeout=900", *arguments])
        recordings = merge_recordings(Path(folder))
    options.into.write_text(json.dumps(recordings), "utf-8")
    print(f"{len(recordings['seconds'])} tests, {sum(map(len, recordings['ran'].values()))} lines")


if __name__ == "__main__":
    main()
