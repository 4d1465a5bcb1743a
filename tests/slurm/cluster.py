"""A real Slurm of two nodes on this host: daemons on loopback, no systemd, ended by their pids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

NUM_NODES = 2
CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SrunPortRange={srun_first}-{srun_last}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
ReturnToService=2
KillWait=5
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 \
RealMemory=1000 State=UNKNOWN
PartitionName=cpu Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """Starts the daemons in `root`; `stop` ends those and no others."""

    def __init__(self, root: Path):
        self.root = root
        base = _free_port_block(200)
        for name in ("state", "log", *(f"spool.n{i + 1}" for i in range(NUM_NODES))):
            (root / name).mkdir(parents=True)
        (root / "munge.key").write_bytes(os.urandom(128))
        (root / "munge.key").chmod(0o600)
        (root / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.configuration = root / "slurm.conf"
        self.configuration.write_text(
            CONFIGURATION.format(
                host=socket.gethostname(),
                root=root,
                port=base,
                first=base + 1,
                last=base + NUM_NODES,
                srun_first=base + 100,
                srun_last=base + 199,
                nodes=NUM_NODES,
            )
        )
        self.env = {**os.environ, "SLURM_CONF": str(self.configuration)}

    def start(self) -> None:
        """Returns once every node is idle."""
        self.run(
            "munged",
            "--force",
            f"--key-file={self.root}/munge.key",
            f"--socket={self.root}/munge.sock",
            f"--pid-file={self.root}/munged.pid",
            f"--log-file={self.root}/log/munged.log",
            f"--seed-file={self.root}/munge.seed",
        )
        self.run("slurmctld", "-f", str(self.configuration), "-c")
        for idx in range(NUM_NODES):
            self.run("slurmd", "-f", str(self.configuration), "-N", f"n{idx + 1}")
        for _ in range(80):
            idle = self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).stdout.strip()
            if idle == str(NUM_NODES):
                return
            time.sleep(0.25)
        raise AssertionError((self.root / "log/slurmctld.log").read_text()[-2000:])

    def stop(self) -> None:
        for pid_file in self.root.glob("*.pid"):
            try:
                os.kill(int(pid_file.read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                continue  # it ended by itself

    def run(self, *command: str, check: bool = True, **options) -> subprocess.CompletedProcess[str]:
        """One client call, never longer than 30 s."""
        result = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=30, **options
        )
        assert not check or result.returncode == 0, f"{command}: {result.stderr}"
        return result

    def submit(self, cwd: Path, env_file: Path, *arguments: str) -> str:
        """Queues a job on all nodes; returns its id. Its log is `cwd/job-ID.log`."""
        options = ["--parsable", f"--nodes={NUM_NODES}", "--output=job-%j.log"]
        options.append(f"--export=ALL,PROACT_ENV_FILE={env_file}")
        return self.run("sbatch", *options, *arguments, cwd=cwd).stdout.strip()

    def state(self, job: str) -> str:
        """COMPLETED, FAILED, RUNNING, PENDING, …"""
        text = self.run("scontrol", "show", "job", "-o", job).stdout
        return text.partition("JobState=")[2].split()[0]

    def wait(self, job: str, timeout_s: float) -> str:
        """The state in which the job ended, or the one it is in when time is up."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            state = self.state(job)
            if state not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"):
                return state
            time.sleep(1)
        return self.state(job)


def _free_port_block(size: int) -> int:
    """The first of `size` ports below the ephemeral range, chosen by process id."""
    return 17000 + (os.getpid() % 50) * size
