"""What is published: a wheel that carries the library alone, an sdist that carries everything, and types that a user's mypy can check."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling import build

ROOT = Path(__file__).parents[2]
_CONSUMER = """
import steelyard as sy

account: sy.Account = sy.open_account(":memory:", "typed", unit=sy.users("user"), epsilon="1")
session = sy.Session(sy.read({"user": [1, 2], "amount": [3.0, 4.0]}), account)
total: sy.Release = session.release(sy.Sum("amount", epsilon="0.5", cap=10, by="user", keys=[1, 2]), key="total")
left: sy.Loss = account.remaining
people = sy.Plan({"people": (sy.CountUsers(), 60)}, profile=[])
refused: type[Exception] = sy.errors.BudgetExceeded
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return where / build.build_wheel(str(where))


def test_the_wheel_carries_the_library_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "steelyard/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"steelyard"}
    assert wheel.stat().st_size < 2_000_000


def test_the_sdist_carries_what_the_tests_and_the_site_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    assert {
        "README.md",
        "CHANGELOG.md",
        "mkdocs.yml",
        "docs/index.md",
        "tests/conftest.py",
        "bench/docs_site.py",
    } <= names


def test_a_users_mypy_knows_our_types(wheel: Path, tmp_path: Path) -> None:
    """Installed as a stranger installs it: into an environment of its own, from the wheel."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    inside = tmp_path / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    zipfile.ZipFile(wheel).extractall(inside)
    (inside / "beside.pth").write_text(sysconfig.get_paths()["purelib"])  # what it depends on
    (tmp_path / "right.py").write_text(_CONSUMER)
    (tmp_path / "wrong.py").write_text(
        _CONSUMER + "wrong: int = total.guarantee\nsession.release(sy.Sum(7))\nsy.Summ\n"
    )
    interpreter = str(tmp_path / "venv" / "bin" / "python")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", interpreter, "right.py", "wrong.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    assert "right.py" not in told, told
    assert 'has type "Guarantee"' in told
    assert told.count("wrong.py") >= 3, told
