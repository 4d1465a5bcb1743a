"""Where everything of a demo lies: one folder, filled stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Names of `predictions/NAME.jsonl` and `scores/NAME.json`, in the order of the report's rows; those
# of GSPO runs come from `rl_name`.
UNTRAINED, SFT = "untrained", "sft"
SWAPPED_TOLD, SWAPPED_FRAMES = "swapped_told", "swapped_frames"
CONTROLS = (SWAPPED_TOLD, SWAPPED_FRAMES)
ALWAYS_SPEAK, ALWAYS_SILENT = "always_speak", "always_silent"
# Shown where their scores exist.
BASELINES = (ALWAYS_SPEAK, ALWAYS_SILENT)


def rl_name(seed: int) -> str:
    """The name of the predictions and scores of one GSPO run."""
    return f"rl_seed_{seed}"


@dataclass(frozen=True)
class DemoFolder:
    """The paths of a demo under `root`; nothing is made or checked here."""

    root: Path

    @property
    def data(self) -> Path:
        """The toy streams: `{train,rl,test}.jsonl` and `videos/`."""
        return self.root / "data"

    @property
    def train_streams(self) -> Path:
        return self.data / "train.jsonl"

    @property
    def rl_streams(self) -> Path:
        return self.data / "rl.jsonl"

    @property
    def test_streams(self) -> Path:
        return self.data / "test.jsonl"

    @property
    def tiny(self) -> Path:
        """The untrained checkpoint."""
        return self.root / "tiny"

    @property
    def sft_samples(self) -> Path:
        return self.root / "sft_samples" / "samples.jsonl"

    @property
    def train_decisions(self) -> Path:
        return self.root / "rl_decisions" / "train" / "decisions.jsonl"

    @property
    def held_out_decisions(self) -> Path:
        return self.root / "rl_decisions" / "held_out" / "decisions.jsonl"

    @property
    def sft_run(self) -> Path:
        """The run folder of stage 1."""
        return self.root / "sft"

    def rl_run(self, seed: int) -> Path:
        """The run folder of stage 2 under one seed."""
        return self.root / "rl" / f"seed_{seed}"

    def rl_seeds(self) -> list[int]:
        """Seeds of the GSPO runs that were begun, ascending; [0] before the first."""
        folders = self.root.glob("rl/seed_*")
        seeds = [path.name.removeprefix("seed_") for path in folders]
        return sorted(int(seed) for seed in seeds if seed.isdecimal()) or [0]

    def evaluation(self, seed: int) -> Path:
        """The held-out decisions before and after stage 2."""
        return self.rl_run(seed) / "evaluation.json"

    def completions(self, seed: int) -> Path:
        """Some sampled answers of every step of stage 2."""
        return self.rl_run(seed) / "completions.jsonl"

    @property
    def frames(self) -> Path:
        """A frame store with the test streams' frames."""
        return self.root / "frames"

    @property
    def settings(self) -> Path:
        """What the demo was begun with."""
        return self.root / "settings.json"

    @property
    def seconds(self) -> Path:
        """Wall-clock seconds of each stage so far."""
        return self.root / "seconds.json"

    @property
    def memory(self) -> Path:
        """The highest memory so far."""
        return self.root / "memory.json"

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    def predictions(self, name: str) -> Path:
        """Predictions of a stage, control or baseline."""
        return self.root / "predictions" / f"{name}.jsonl"

    def scores(self, name: str) -> Path:
        """The Scores object of a stage, control or baseline."""
        return self.root / "scores" / f"{name}.json"

    def shown(self, path: Path) -> str:
        """A path as the report names it: relative to the demo's folder."""
        return path.relative_to(self.root).as_posix()
