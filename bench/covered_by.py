"""Which tests run which lines: what `bench/mutants.py python --covered` chooses a mutant's tests by.

Runs the tests once under coverage.py, each as a context of its own, and writes {file: {line: [test, …]}, and how long
each took. What runs in a process of its own (a command of the CLI, a reader of files) is not seen.

    pip install '.[test,bench]' && python bench/covered_by.py --into covered.json tests/runs tests/services …

Without tests: all of them. It takes about twice as long as they do.
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
    """Is told by pytest which test begins, and writes what each has run when the session ends."""

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
        # One that fails here proves nothing of a mutant.
        spent = self._seconds.get(report.nodeid, 0.0) + report.duration
        self._seconds[report.nodeid] = spent if report.passed else float("inf")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        ran = {
            str(Path(file).relative_to(ROOT)): {
                str(line): [test for test in tests if test] for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        told = {"seconds": self._seconds, "ran": ran}
        (self._into / f"{os.getpid()}.json").write_text(json.dumps(told), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    # The process that only hands tests out runs none.
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(_Recorder(Path(os.environ[FOLDER])))


def merged(folder: Path) -> dict[str, Any]:
    """{"seconds": {test: seconds}, "ran": {file: {line: [test, …]}}} of all that was written, for tests that passed."""
    seconds: dict[str, float] = {}
    ran: dict[str, dict[str, list[str]]] = {}
    told = [json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))]
    for one in told:
        seconds |= {test: spent for test, spent in one["seconds"].items() if spent != float("inf")}
    for one in told:
        for file, lines in one["ran"].items():
            for line, tests in lines.items():
                ran.setdefault(file, {}).setdefault(line, []).extend(test for test in tests if test in seconds)
    return {"seconds": seconds, "ran": ran}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"])
    parser.add_argument("--into", type=Path, default=Path("covered.json"))
    parser.add_argument("--workers", type=int, default=2)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fieldmark-covered-") as folder:
        os.environ[FOLDER] = folder
        here = str(Path(__file__).parent)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        sys.path.insert(0, here)
        arguments = ["-p", "covered_by", "-p", "no:cacheprovider", "--tb=no", f"-n{said.workers}", *said.tests]
        pytest.main(["--override-ini=timeout=900", *arguments])
        found = merged(Path(folder))
    said.into.write_text(json.dumps(found), "utf-8")
    print(f"{len(found['seconds'])} tests, {sum(map(len, found['ran'].values()))} lines")


if __name__ == "__main__":
    main()
