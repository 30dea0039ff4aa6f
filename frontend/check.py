"""Checks the code of the web UI: format and rules (Biome), types against the routes the API has, and tests (Vitest).

    python frontend/check.py

`npm run format`, in `frontend`, applies the format. The check needs the extras `test` and `lint`, and runs the Node
that builds the web UI. The packages of `package-lock.json` are installed once, below `~/.cache/fieldmark-tests`. It
works on a copy: the checkout stays as it is.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

FRONTEND = Path(__file__).resolve().parent
ROOT = FRONTEND.parent
SHARED_FILES = ("clients/typescript/src/following.ts", "docs/errors.md")

sys.path.insert(0, str(ROOT / "tests"))

from fieldmark.api.app import create_app  # noqa: E402
from fieldmark.settings import Settings  # noqa: E402
from node import install_packages, run_command  # noqa: E402


def copy(root: Path) -> Path:
    """Copy the code into a folder, beside the files outside of it that it uses. Return its own folder."""
    folder = root / "frontend"
    ignored = shutil.ignore_patterns("node_modules", "__pycache__", "openapi.json", "description.d.ts")
    shutil.copytree(FRONTEND, folder, ignore=ignored)
    for name in SHARED_FILES:
        (root / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, root / name)
    (folder / "node_modules").symlink_to(install_packages(FRONTEND))
    return folder


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fieldmark-page-") as root:
        folder = copy(Path(root))
        (folder / "openapi.json").write_text(json.dumps(create_app(Settings(_env_file=None)).openapi()))
        bin_folder = "node_modules/.bin"
        run_command(folder, f"{bin_folder}/openapi-typescript", "openapi.json", "--output", "src/api/description.d.ts")
        run_command(folder, f"{bin_folder}/biome", "ci", "--error-on-warnings")
        run_command(folder, f"{bin_folder}/tsc", "--noEmit")
        print(run_command(folder, f"{bin_folder}/vitest", "run", NO_COLOR="1"))


if __name__ == "__main__":
    main()
