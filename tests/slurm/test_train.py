"""The toy recipes through slurm/train.sbatch on two real Slurm nodes, ZeRO-3 on CPU and gloo."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proact_train.core.run_folder import load_metrics, model_folder
from tests.rl_data import build_decisions
from tests.sft_data import build_inputs
from tests.slurm.cluster import Cluster

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not shutil.which("slurmctld"), reason="apt-get install slurm-wlm munge"),
]
ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "slurm/train.sbatch")
SFT = ("sft", "recipes/sft/toy_cpu.yaml")
RL = ("rl", "recipes/rl/toy_cpu.yaml")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a checkout: recipes, package, data, and the cluster's env file."""
    from proact_train.core.contracts import write_decisions

    root = tmp_path_factory.mktemp("world")
    build_inputs(root, 8)
    write_decisions(root / "decisions.jsonl", build_decisions(root, 8))
    for name in ("recipes", "proact_train", "eval", "data_builders"):
        (root / name).symlink_to(ROOT / name)
    settings = {
        "PROACT_VENV": ROOT / ".venv",
        "PROACT_PROCS_PER_NODE": 1,
        "PROACT_ACCELERATE": "recipes/accelerate/cpu_zero3.yaml",
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": 1,
        "GLOO_SOCKET_IFNAME": "lo",
        "HF_HUB_OFFLINE": 1,
        "PYTHONPATH": ROOT,
    }
    lines = (f"export {name}={value}\n" for name, value in settings.items())
    (root / "env.sh").write_text("".join(lines))
    return root


@pytest.fixture(scope="module")
def sft_run(cluster: Cluster, world: Path) -> Path:
    """Stage 1 on two nodes, stopped once by the pre-emption signal and requeued."""
    run = world / "sft-run"
    job = cluster.submit(
        world,
        world / "env.sh",
        SCRIPT,
        *SFT,
        f"model={world / 'tiny'}",
        f"train_samples={world / 'train.jsonl'}",
        f"output_dir={run}",
        "max_steps=40",
        "batch_size=4",
        "micro_batch_size=2",
        "logging_steps=1",
        "save_steps=1000",
    )
    log = world / f"job-{job}.log"
    wait_for_step(run, 3, log)
    cluster.run("scancel", "--signal=USR1", "--batch", job)
    wait_until(lambda: "queued again" in text_of(log), 120, log)
    wait_until(lambda: cluster.state(job) == "PENDING", 60, log)
    stopped_at = load_metrics(run)[-1]["step"]
    # A requeued job is held back for two minutes; an operator can start it now.
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    assert cluster.wait(job, 240) == "COMPLETED", text_of(log)[-4000:]
    assert f"Stopped at step {stopped_at};" in text_of(log)
    assert 3 <= stopped_at < 40
    return run


def test_sft_stops_saves_and_goes_on_over_two_nodes(sft_run: Path, world: Path) -> None:
    assert [row["step"] for row in load_metrics(sft_run)] == list(range(1, 41))
    (log,) = world.glob("job-*.log")
    assert log.read_text().count("2 process(es) x 1 accumulation") == 2  # before and after
    assert (model_folder(sft_run) / "config.json").is_file()
    assert not list(world.glob(".proact-stop-*"))


def test_rl_starts_from_that_run(cluster: Cluster, sft_run: Path, world: Path) -> None:
    run = world / "rl-run"
    job = cluster.submit(
        world,
        world / "env.sh",
        SCRIPT,
        *RL,
        f"model={sft_run}",
        f"train_decisions={world / 'decisions.jsonl'}",
        f"output_dir={run}",
        "held_out_decisions=null",
        "evaluation.num_decisions=0",
        "max_steps=2",
        "decisions_per_step=2",
        "num_generations=4",
        "max_completion_length=8",
        "save_steps=1000",
    )
    assert cluster.wait(job, 300) == "COMPLETED", text_of(world / f"job-{job}.log")[-4000:]
    assert [row["step"] for row in load_metrics(run)] == [1, 2]
    assert (run / "model/adapter_config.json").is_file()


def test_a_users_mistake_fails_at_once_and_is_not_requeued(cluster: Cluster, world: Path) -> None:
    job = cluster.submit(world, world / "env.sh", SCRIPT, "sft", "recipes/sft/none.yaml")
    assert cluster.wait(job, 30) == "FAILED"
    assert "expected sft or rl and a recipe file" in text_of(world / f"job-{job}.log")


def wait_for_step(run: Path, step: int, log: Path) -> None:
    wait_until(lambda: any(row["step"] >= step for row in load_metrics(run)), 180, log)


def wait_until(is_true, timeout_s: float, log: Path) -> None:
    end = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < end, text_of(log)[-4000:]
        time.sleep(0.5)


def text_of(log: Path) -> str:
    return log.read_text(errors="replace") if log.is_file() else "(no log yet)"
