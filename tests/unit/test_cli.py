"""The command line: fast help, named mistakes, exit codes."""

import subprocess
import sys

import pytest

from proact_train import cli


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"proact {name}" in out for name in cli.COMMANDS)
    assert cli.main(["build"]) == 0
    assert "proact build omnimmi" in capsys.readouterr().out


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["predcit"]) == 2
    assert "'predcit'" in capsys.readouterr().err


def test_core_and_cli_import_no_torch():
    code = (
        "import sys, proact_train.cli, proact_train.core.contracts, proact_train.core.recipe;"
        "assert not {'torch', 'transformers', 'trl'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
