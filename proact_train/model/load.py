"""Loading models and processors, freezing, and counting what trains.

Adapters: `lora.py`. The tiny model for laptops: `tiny.py`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

from ..core.errors import RunError

VISION_TOKENS = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_ADAPTER_FILE = "adapter_config.json"


@dataclass(frozen=True)
class TrainableSummary:
    """Counts of parameters; `by_part` maps `vision`, `language_model`, `lm_head`, `adapter` to
    (trainable, all)."""

    num_trainable: int
    num_total: int
    by_part: dict[str, tuple[int, int]]

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {trainable:,} of {total:,}"
            for name, (trainable, total) in self.by_part.items()
        )
        return f"trainable parameters: {self.num_trainable:,} of {self.num_total:,} ({parts})"


def load_model(
    path: str | Path,
    dtype: torch.dtype | str = torch.float32,
    attn_implementation: str | None = None,
    device: torch.device | str | None = None,
) -> Qwen3VLForConditionalGeneration:
    """Loads a Qwen3-VL, in evaluation mode.

    Args:
        path: a folder with the weights, or with a LoRA adapter (an RL run's `model/`): then its
            base is loaded and the adapter merged into it.
        dtype: torch dtype or its name, such as `bfloat16`.
        attn_implementation: as in transformers; None takes transformers' choice.
        device: where to put it; None leaves it where transformers puts it (ZeRO-3 too).

    Raises:
        RunError: the folder holds neither weights nor an adapter.
    """
    path = Path(path)
    if (path / _ADAPTER_FILE).is_file():
        return _load_with_adapter(path, dtype, attn_implementation, device)
    _check_folder(path)
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype)
    model = Qwen3VLForConditionalGeneration.from_pretrained(
        path, dtype=dtype, attn_implementation=attn_implementation
    )
    return model.to(device) if device is not None else model  # type: ignore[arg-type]


def load_processor(path: str | Path, max_pixels: int, min_pixels: int | None = None) -> Any:
    """Loads the processor with one pixel budget for a frame, and proves by counting that it holds.

    Args:
        path: a model folder (for an adapter, its base's processor is taken).
        max_pixels: ceiling of a resized frame's area; one token stands for 32 x 32 pixels.
        min_pixels: floor of the area; None keeps the processor's own, lowered to `max_pixels`.

    Returns:
        A Qwen3VLProcessor.

    Raises:
        RunError: no processor in the folder, or the budget is below one token.
    """
    path = Path(path)
    if (
        not (path / "preprocessor_config.json").is_file()
        and not (path / "processor_config.json").is_file()
    ):
        if (path / _ADAPTER_FILE).is_file():
            return load_processor(_adapter_base(path), max_pixels, min_pixels)
        _check_folder(path)
    processor = AutoProcessor.from_pretrained(path)
    image_processor = processor.image_processor
    side = image_processor.patch_size * image_processor.merge_size
    if max_pixels < side * side:
        raise RunError(
            "max_pixels",
            f"{max_pixels}",
            f"at least {side * side}, the {side} x {side} pixels of one token",
            "Raise max_pixels.",
        )
    if min_pixels is None:
        min_pixels = min(int(image_processor.size["shortest_edge"]), max_pixels)
    if min_pixels > max_pixels:
        raise RunError(
            "min_pixels", f"{min_pixels}", f"at most max_pixels, {max_pixels}", "Lower min_pixels."
        )
    image_processor.size = {"shortest_edge": min_pixels, "longest_edge": max_pixels}
    _check_pixel_budget(image_processor, max_pixels, side)
    return processor


def freeze_vision(model: nn.Module) -> None:
    """Freezes the vision tower with its merger and deepstack mergers; the rest stays as it is."""
    num_frozen = 0
    for name, parameter in model.named_parameters():
        if is_vision_name(name):
            parameter.requires_grad_(False)
            num_frozen += 1
    assert num_frozen, "the model has no vision tower"


def is_vision_name(name: str) -> bool:
    """Whether a parameter or module name lies in the vision tower (mergers included)."""
    return "visual" in name.split(".")


def trainable_summary(model: nn.Module) -> TrainableSummary:
    """Counts parameters by part; under ZeRO-3 the whole parameter counts, not the local shard."""
    by_part: dict[str, tuple[int, int]] = {}
    for name, parameter in model.named_parameters():
        part = _part_of(name)
        size = int(getattr(parameter, "ds_numel", parameter.numel()))
        trainable, total = by_part.get(part, (0, 0))
        by_part[part] = (trainable + size * parameter.requires_grad, total + size)
    return TrainableSummary(
        num_trainable=sum(trainable for trainable, _ in by_part.values()),
        num_total=sum(total for _, total in by_part.values()),
        by_part=by_part,
    )


def forbidden_token_ids(processor: Any) -> list[int]:
    """Ids that no completion may hold: a sampled vision token would ask for features."""
    vocabulary = processor.tokenizer.get_vocab()
    ids = {vocabulary[token] for token in VISION_TOKENS if token in vocabulary}
    return sorted(ids | {int(processor.image_token_id), int(processor.video_token_id)})


def _part_of(name: str) -> str:
    if "lora_" in name:
        return "adapter"
    if is_vision_name(name):
        return "vision"
    return "lm_head" if "lm_head" in name.split(".") else "language_model"


def _load_with_adapter(
    path: Path,
    dtype: torch.dtype | str,
    attn_implementation: str | None,
    device: torch.device | str | None,
) -> Qwen3VLForConditionalGeneration:
    from peft import PeftModel

    base = load_model(_adapter_base(path), dtype, attn_implementation, device)
    return PeftModel.from_pretrained(base, str(path)).merge_and_unload()  # type: ignore


def _adapter_base(path: Path) -> Path:
    config_path = path / _ADAPTER_FILE
    base = json.loads(config_path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base or not Path(base).is_dir():
        raise RunError(
            f"{config_path} base_model_name_or_path",
            repr(base),
            "the folder of the model that the adapter was trained on",
            "Put the base model back there, or correct the path in the file.",
        )
    return Path(base)


def _check_folder(path: Path) -> None:
    if not (path / "config.json").is_file():
        raise RunError(
            str(path),
            "no config.json" if path.is_dir() else "no such folder",
            "a saved Qwen3-VL model or a LoRA adapter",
            "Give a model folder, such as a run's model/; nothing is downloaded.",
        )


def _check_pixel_budget(image_processor: Any, max_pixels: int, side: int) -> None:
    edge = 2 * int(max_pixels**0.5) + side
    grid = image_processor(images=[Image.new("RGB", (edge, edge))], return_tensors="pt")
    num_tokens = int(grid["image_grid_thw"].prod()) // image_processor.merge_size**2
    assert num_tokens <= max_pixels // (side * side), "the image processor ignores max_pixels"
