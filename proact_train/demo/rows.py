"""What the report calls a stage, a control or a baseline, and which of them a folder may hold."""

from __future__ import annotations

from .folder import (
    ALWAYS_SILENT,
    ALWAYS_SPEAK,
    SFT,
    SWAPPED_FRAMES,
    SWAPPED_TOLD,
    UNTRAINED,
    DemoFolder,
    rl_name,
)

_NAMES = {
    UNTRAINED: "untrained",
    SFT: "after SFT",
    SWAPPED_TOLD: "control: another query or memory",
    SWAPPED_FRAMES: "control: another video",
    ALWAYS_SPEAK: "baseline: always speak",
    ALWAYS_SILENT: "baseline: always silent",
}


def stage_names(folder: DemoFolder) -> tuple[str, ...]:
    """Untrained, after SFT, after each GSPO run."""
    return (UNTRAINED, SFT, *(rl_name(seed) for seed in folder.rl_seeds()))


def row_name(folder: DemoFolder, name: str) -> str:
    """The words for a name of `folder.predictions`; a seed is named where there are several."""
    if name in _NAMES:
        return _NAMES[name]
    seeds = {rl_name(seed): seed for seed in folder.rl_seeds()}
    return "after GSPO" if len(seeds) == 1 else f"after GSPO, seed {seeds[name]}"
