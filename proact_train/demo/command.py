"""The whole product on a laptop: toy videos -> a trained and measured model -> a report to open.

Every stage is the code that a cluster runs, with another recipe: streams, SFT samples and RL
decisions are built, a tiny Qwen3-VL is trained by SFT and then by GSPO (both through `accelerate
launch`), and watches held-out streams frame by frame before and after. A demo that was interrupted
goes on where it stopped when the same line is run again.

examples:
  proact demo --out runs/demo
  proact demo --out runs/demo --rl-seeds 0 1 2   # GSPO three times from the same SFT model
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

from ..core.errors import RunError
from ..core.jsonl import write_json
from .folder import DemoFolder
from .size import DemoSize

# For this process and those it launches. On a tiny model a second thread costs more than it brings,
# and the demo is the same with a GPU in the machine as without. What it launches keeps freed memory
# for the next step: by default glibc gives every large tensor back and faults its pages in again.
# The libraries' own announcements (a deprecated name, the accelerator that was found) are not the
# reader's business.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "CUDA_VISIBLE_DEVICES": "",
    "DS_ACCELERATOR": "cpu",
    "PYTHONWARNINGS": "ignore::FutureWarning",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `proact demo`."""
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of world and weights (%(default)s)")
    parser.add_argument(
        "--rl-seeds", type=int, nargs="+", default=[0], help="one GSPO run for each (0)"
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="share of the streams and steps; below 1 the model learns little (%(default)s)",
    )
    parser.add_argument(
        "--num-processes",
        type=int,
        default=min(2, os.cpu_count() or 1),
        help="training processes, one thread each (%(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Runs `proact demo`."""
    os.environ.update(_ENVIRONMENT)  # before torch loads
    warnings.simplefilter("ignore", FutureWarning)
    size = DemoSize.scaled(args.scale, args.num_processes)
    folder = DemoFolder(args.out.absolute())
    _check_same_demo(folder, {"seed": args.seed, "scale": args.scale})

    from .stages import build_stages, run_stages

    report = run_stages(build_stages(folder, size, args.seed, args.rl_seeds), folder)
    print(f"\nOpen {report}")


def _check_same_demo(folder: DemoFolder, settings: dict[str, float]) -> None:
    """Refuses to go on in a folder that other settings began."""
    if not folder.settings.is_file():
        write_json(folder.settings, settings)
        return
    found = json.loads(folder.settings.read_text(encoding="utf-8"))
    if found != settings:
        raise RunError(
            str(folder.root),
            f"a demo begun with {found}",
            f"{settings}",
            "Give the same --seed and --scale, or another --out.",
        )
