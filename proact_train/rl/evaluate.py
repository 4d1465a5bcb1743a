"""The paired measurement: the same held-out decisions, sampled before and after training.

Completions are drawn at the recipe's temperature with seeds of their own, the same on both sides.
A finished run is measured again with

  python -m proact_train.rl.evaluate RECIPE [key=value …]
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from ..core.command import run_recipe_command
from ..core.contracts import load_decisions
from ..core.jsonl import write_json
from ..core.types import Decision
from .batch import build_prompts
from .metrics import rollout_metrics
from .paired import decision_means, paired_difference
from .recipe import RlRecipe
from .rollout import InProcessEngine, Sampling
from .rows import Row
from .scoring import Scorer, score_groups

EVALUATION = "evaluation.json"
BEFORE = "evaluation_before.json"
# Decisions that are encoded and scored at once.
CHUNK = 16


@dataclass(frozen=True)
class Measurement:
    """Means by decision (None: unscored) and the metrics of all their rows."""

    total: list[float | None]
    content_and_semantic: list[float | None]
    metrics: dict[str, float]


def held_out_decisions(recipe: RlRecipe) -> list[Decision]:
    """The decisions to measure, spread evenly over the file; none if the recipe asks for none."""
    wanted = recipe.evaluation.num_decisions
    if not wanted or recipe.held_out_decisions is None:
        return []
    decisions = load_decisions(recipe.held_out_decisions)
    if wanted >= len(decisions):
        return decisions
    return [decisions[at * len(decisions) // wanted] for at in range(wanted)]


def measure(
    model: Any,
    scorer: Scorer,
    recipe: RlRecipe,
    decisions: Sequence[Decision],
    rank: int = 0,
    num_ranks: int = 1,
) -> Measurement:
    """Samples and scores every decision; ranks share the work, every rank gets the result.

    Args:
        model: with whole weights (`rollout.whole_weights`).
    """
    engine = InProcessEngine(model, scorer.processor, _sampling(recipe))
    mine: list[tuple[int, list[Row]]] = []
    local = range(rank, len(decisions), num_ranks)
    for start in range(0, len(local), CHUNK):
        chunk = local[start : start + CHUNK]
        chosen = [decisions[idx] for idx in chunk]
        seeds = [
            zlib.crc32(f"{recipe.evaluation.seed}/{decision.decision_id}".encode())
            for decision in chosen
        ]
        completions = engine.sample(build_prompts(model, scorer.processor, chosen), seeds)
        rows = score_groups(scorer, chosen, completions)
        mine += zip(chunk, rows, strict=True)
    everyone = gather_object(mine) if num_ranks > 1 else mine
    groups = [rows for _, rows in sorted(everyone, key=lambda pair: pair[0])]
    return Measurement(
        decision_means(groups, lambda row: row.rewards.total),
        decision_means(groups, lambda row: row.rewards.content_and_semantic),
        rollout_metrics(
            [row for group in groups for row in group], recipe.evaluation.num_generations
        ),
    )


def save_before(run: Path, measurement: Measurement) -> None:
    """Keeps the first measurement, so that a resumed run still has it."""
    write_json(run / BEFORE, asdict(measurement))


def load_before(run: Path) -> Measurement | None:
    path = run / BEFORE
    if not path.is_file():
        return None
    return Measurement(**json.loads(path.read_text(encoding="utf-8")))


def write_report(
    run: Path,
    recipe: RlRecipe,
    decisions: Sequence[Decision],
    before: Measurement,
    after: Measurement,
) -> dict[str, Any]:
    """Writes RUN/evaluation.json and returns it."""
    streams = [decision.stream_id for decision in decisions]

    def compare(name: str) -> dict[str, Any] | None:
        result = paired_difference(getattr(before, name), getattr(after, name), streams)
        return None if result is None else asdict(result)

    report = {
        "num_decisions": len(decisions),
        "num_streams": len(set(streams)),
        "num_generations": recipe.evaluation.num_generations,
        "temperature": recipe.temperature,
        "seed": recipe.evaluation.seed,
        "paired": {
            "reward": compare("total"),
            "content_and_semantic": compare("content_and_semantic"),
        },
        "before": before.metrics,
        "after": after.metrics,
    }
    write_json(run / EVALUATION, report)
    return report


def describe(report: dict[str, Any]) -> str:
    """Two lines for the terminal."""
    lines = []
    for name, result in report["paired"].items():
        if result is None:
            lines.append(f"held-out {name}: unscored")
            continue
        error = result["standard_error"]
        sure = "" if error is None else f" ± {error:.4f}"
        lines.append(
            f"held-out {name}: {result['before']:.4f} -> {result['after']:.4f} "
            f"(paired difference {result['difference']:+.4f}{sure}, {result['n']} decisions)"
        )
    return "\n".join(lines)


def _sampling(recipe: RlRecipe) -> Sampling:
    return Sampling(
        recipe.evaluation.num_generations,
        recipe.temperature,
        recipe.max_completion_length,
    )


def evaluate_run(recipe: RlRecipe) -> dict[str, Any]:
    """Measures a finished run again: its adapter off, then on."""
    from peft import PeftModel

    from ..core.errors import RunError
    from ..core.run_folder import MODEL, model_folder
    from ..model.load import load_model, load_processor
    from ..model.trunk import use_trunk_attention
    from .scoring import build_scorer

    decisions = held_out_decisions(recipe)
    if not decisions:
        raise RunError(
            "evaluation.num_decisions",
            "nothing to measure",
            "held-out decisions",
            "Set held_out_decisions and evaluation.num_decisions.",
        )
    run, source = Path(recipe.output_dir), model_folder(recipe.model)
    scorer = build_scorer(
        recipe.rewards, load_processor(source, recipe.max_pixels), recipe.with_thought
    )
    base = load_model(source, recipe.dtype, recipe.attn_implementation)
    model: Any = PeftModel.from_pretrained(base, str(run / MODEL))
    use_trunk_attention(model)
    with model.disable_adapter():
        before = measure(model, scorer, recipe, decisions)
    return write_report(run, recipe, decisions, before, measure(model, scorer, recipe, decisions))


def main() -> int:
    def command(recipe: RlRecipe) -> int:
        print(describe(evaluate_run(recipe)))
        return 0

    program = "python -m proact_train.rl.evaluate"
    return run_recipe_command(program, __doc__ or "", RlRecipe, lambda: command)


if __name__ == "__main__":
    sys.exit(main())
