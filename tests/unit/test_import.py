from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import steelyard


def test_importing_steelyard_loads_nothing_heavy() -> None:
    code = (
        "import sys, steelyard as sy\n"
        "sy.users, sy.Loss, sy.errors\n"
        "heavy = {'numpy', 'duckdb', 'scipy', 'pyarrow', 'ibis', 'pandas', 'cryptography', 'pyspark', 'psycopg'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ledger_commands_load_nothing_heavy() -> None:
    code = (
        "import sys\nfrom steelyard.cli import main\n"
        "main(['account', 'open', ':memory:', 'a', '--unit', 'rows', '--epsilon', '1'])\n"
        "heavy = {'numpy', 'duckdb', 'scipy', 'pyarrow', 'ibis', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_every_public_name_is_there() -> None:
    for name in steelyard.__all__:
        assert getattr(steelyard, name) is not None
    assert "Session" in dir(steelyard)


def test_contributing_names_the_layers_that_are_kept() -> None:
    root = Path(__file__).parents[2]
    contract = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert f"`{' → '.join(contract['layers'])}`" in (root / "CONTRIBUTING.md").read_text()
