"""What an installation weighs: the wheel, a fresh environment with it, and what ``import steelyard`` costs.

python bench/install.py [--python python3.12 ...] [--extra server]

Builds wheel and sdist, installs each of them into a new environment, and runs one release there. Needs a package index.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_RELEASE = """
import steelyard as sy
account = sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=1)
print("released", type(sy.Session(sy.read({"x": [1.0, 2.0]}), account).release(sy.Sum("x", epsilon=1, cap=2)).value).__name__)
"""
_IMPORT = "import time; t = time.process_time(); import {0}; print(time.process_time() - t)"


def build(folder: Path, python: str) -> tuple[Path, Path]:
    """A wheel and an sdist of this checkout."""
    subprocess.run([python, "-m", "venv", str(folder / "build")], check=True)
    tool = str(folder / "build" / "bin" / "python")
    subprocess.run([tool, "-m", "pip", "install", "-q", "build"], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([tool, "-m", "build", "-o", str(folder / "dist"), str(ROOT)], check=True, capture_output=True)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def tried(folder: Path, python: str, file: Path, extra: str) -> str:
    """Install a file into a new environment, release a sum there, and say what that weighs."""
    where = folder / f"{Path(python).name}-{file.suffix[1:]}"
    subprocess.run([python, "-m", "venv", str(where)], check=True)
    inside, before = str(where / "bin" / "python"), _size(where)
    wanted = f"{file}[{extra}]" if extra else str(file)
    subprocess.run([inside, "-m", "pip", "install", "-q", wanted], check=True, stderr=subprocess.DEVNULL)
    released = _run(inside, _RELEASE)
    imports = {
        name: min(float(_run(inside, _IMPORT.format(name))) for _ in range(3)) for name in ("steelyard", "numpy")
    }
    version = _run(inside, "import sys; print('.'.join(map(str, sys.version_info[:3])))")
    size = (_size(where) - before) / 1e6
    return f"Python {version}, {file.suffix[1:]}: {released}; {size:.0f} MB installed; import steelyard {imports['steelyard']:.3f} CPU s (numpy {imports['numpy']:.3f})"


def _run(python: str, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd="/").stdout.strip()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    """Print what was found."""
    options = argparse.ArgumentParser()
    options.add_argument("--python", nargs="*", default=[sys.executable])
    options.add_argument("--extra", default="")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        wheel, sdist = build(Path(name), given.python[0])
        print(f"wheel {wheel.stat().st_size / 1e6:.2f} MB, sdist {sdist.stat().st_size / 1e6:.2f} MB")
        for python in given.python:
            for file in (wheel, sdist):
                print(tried(Path(name), python, file, given.extra), flush=True)


if __name__ == "__main__":
    main()
