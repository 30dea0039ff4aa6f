"""An installation without the packages of OCR."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import fieldmark
from generated_files import text_image
from running_server import Clone

OCR_PACKAGES = ("rapidocr", "onnxruntime")


@pytest.fixture
def python(memory_path: Path) -> Path:
    """Return the Python of an environment that has all packages of this one except OCR's."""
    environment = memory_path / "venv"
    venv.create(environment)
    site = next(environment.glob("lib/python3*/site-packages"))
    (site / "source.pth").write_text(str(Path(fieldmark.__file__).parents[1]))
    for folder in map(Path, sys.path):
        if folder.name != "site-packages":
            continue
        for package in folder.iterdir():
            here = site / package.name
            if package.suffix != ".pth" and not package.name.startswith(OCR_PACKAGES) and not here.exists():
                here.symlink_to(package)
    return environment / "bin/python"


@pytest.mark.long
def test_without_ocr_a_scan_fails_with_its_code_and_doctor_warns(python: Path, memory_path: Path, clone: Clone) -> None:
    scan = memory_path / "scan.png"
    text_image(["Total 19.50"]).save(scan)

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [python, "-c", "from fieldmark.cli import main; main()", *arguments],
            env={"DATABASE_URL": clone.app_url, "FIELDMARK_HOME": str(memory_path / "home"), "HOME": str(memory_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout

    code, out = run("doctor", "--json")
    checks = {check["name"]: check["state"] for check in json.loads(out)["checks"]}
    assert (code, checks["sandbox"], checks["ocr"]) == (0, "ok", "warning"), out
    code, out = run("extract", "--json", str(scan))
    assert code != 0 and json.loads(out)["code"] == "not_installed", out
