"""Starts a training stage as a user would: `accelerate launch` with a toy recipe."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ..core.errors import RunError

RECIPES = Path(__file__).parents[2] / "recipes"


def launch_stage(stage: str, overrides: Mapping[str, object], num_processes: int) -> None:
    """Trains to the end in processes of their own, their progress bar on this terminal.

    Raises:
        RunError: the stage failed; its own message stands above.
    """
    command = [sys.executable, "-m", "accelerate.commands.launch"]
    command += ["--config_file", str(RECIPES / "accelerate/cpu_2procs.yaml")]
    command += ["--num_processes", str(num_processes), "--main_process_port", str(_free_port())]
    command += ["-m", f"proact_train.{stage}", str(RECIPES / stage / "toy_cpu.yaml")]
    command += [f"{key}={value}" for key, value in overrides.items()]
    shown = ["accelerate", "launch", *command[3:]]
    print(shlex.join(shown), flush=True)
    code = subprocess.run(command).returncode
    if code:
        raise RunError(
            f"stage {stage}",
            f"exit code {code}",
            "a finished run",
            "Mend what the message above names and run the same line again; it goes on.",
        )


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
