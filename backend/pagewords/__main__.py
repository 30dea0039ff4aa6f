"""`python -m pagewords FILE`: print the pages of a file, their words with boxes, and the warnings, as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from pagewords import DocumentContent, Limits, PagewordsError, ReadingWarning, read_file


def main() -> None:
    """Exit with 1 if the file cannot be read: the reason and its code are then on standard error."""
    parser = argparse.ArgumentParser(prog="python -m pagewords", description="Print a file's visible words as JSON.")
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    try:
        content = asyncio.run(read_file(file, file.name, Limits()))
    except PagewordsError as error:
        parser.exit(1, f"{error} [{error.code}]\n")
    except OSError as error:
        parser.exit(1, f"Cannot read {file}: {error.strerror}.\n")
    sys.stdout.write(json.dumps(_as_json(content), ensure_ascii=False) + "\n")


def _as_json(content: DocumentContent) -> dict[str, Any]:
    return {
        "media_type": content.media_type,
        "pages": [
            {
                "number": page.number,
                "width": page.width,
                "height": page.height,
                "engine": page.engine,
                "text": page.text,
                "words": [word.to_json() for word in page.words],
            }
            for page in content.pages
        ],
        "warnings": [_warning(one) for one in content.warnings],
    }


def _warning(warning: ReadingWarning) -> dict[str, Any]:
    return warning.to_json() | {"severity": warning.severity.value, "message": warning.message}


if __name__ == "__main__":
    main()
