"""Where everything of a demo lies: one folder, filled stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Names of `predictions/NAME.jsonl` and `scores/NAME.json`, in the order of the report's rows.
UNTRAINED, SFT, RL = "untrained", "sft", "rl"
SWAPPED_TOLD, SWAPPED_FRAMES = "swapped_told", "swapped_frames"
STAGES = (UNTRAINED, SFT, RL)
CONTROLS = (SWAPPED_TOLD, SWAPPED_FRAMES)
# Shown where their scores exist.
BASELINES = ("always_speak", "always_silent")


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
        return self.root / "sft_samples" / "train.jsonl"

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

    @property
    def rl_run(self) -> Path:
        """The run folder of stage 2."""
        return self.root / "rl"

    @property
    def evaluation(self) -> Path:
        """The held-out decisions before and after stage 2."""
        return self.rl_run / "evaluation.json"

    @property
    def completions(self) -> Path:
        """Some sampled answers of every step of stage 2."""
        return self.rl_run / "completions.jsonl"

    @property
    def frames(self) -> Path:
        """A frame store with the test streams' frames."""
        return self.root / "frames"

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
