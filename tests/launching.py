"""Starts a stage in processes of its own, as a user would."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def launch_stage(
    stage: str, arguments: Sequence[str], cwd: Path, config: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a stage's toy recipe; one process without an accelerate configuration."""
    command = [sys.executable, "-m", f"proact_train.{stage}"]
    if config:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        command = [sys.executable, "-m", "accelerate.commands.launch", "--main_process_port", port]
        command += ["--config_file", str(ROOT / "recipes/accelerate" / config)]
        command += ["-m", f"proact_train.{stage}"]
    settings = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(ROOT)}
    # DeepSpeed compiles an extension once; a cache shared with another environment would be
    # compiled anew at each turn, and a launch waits for it.
    settings["TORCH_EXTENSIONS_DIR"] = str(Path(sys.prefix) / "torch_extensions")
    return subprocess.run(
        [*command, str(ROOT / f"recipes/{stage}/toy_cpu.yaml"), *arguments],
        env={**os.environ, **settings, **env},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )
