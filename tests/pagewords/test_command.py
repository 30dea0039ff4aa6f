"""`python -m pagewords FILE`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BACKEND = Path(__file__).parents[2] / "backend"


def run(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pagewords", str(file)], cwd=BACKEND, capture_output=True, text=True)


def test_command_prints_pages_of_words_with_boxes(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    file.write_text("<p>Total 12.50<p hidden>secret")
    read = json.loads(run(file).stdout)
    (page,) = read["pages"]
    assert (read["media_type"], page["number"], page["text"].split()) == ("text/html", 1, ["Total", "12.50"])
    text, *box = page["words"][1]
    assert text == "12.50" and len(box) == 4 and all(0 <= edge <= 1 for edge in box)
    assert [(one["code"], one["page"], one["count"]) for one in read["warnings"]] == [("hidden_text", 1, 1)]


def test_unreadable_file_exits_1_with_its_code(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"%PDF-1.7 no more")
    refused = run(file)
    assert (refused.returncode, refused.stdout) == (1, "") and "[damaged]" in refused.stderr
    assert run(tmp_path / "none").returncode == 1
