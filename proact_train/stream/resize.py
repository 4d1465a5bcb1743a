"""The pixel budget of a frame: the resize rule of Qwen3-VL's image processor, without torch."""

from __future__ import annotations

import math

# Qwen3-VL: patches of 16 px, merged 2 x 2, so one token stands for 32 x 32 px.
TOKEN_SIDE_PX = 32
MAX_ASPECT_RATIO = 200
# Beside its image a turn takes about so many tokens of text: time mark, tags, answer.
TEXT_TOKENS_PER_TURN = 44


def smart_resize(
    height: int,
    width: int,
    max_pixels: int,
    min_pixels: int = TOKEN_SIDE_PX**2,
    factor: int = TOKEN_SIDE_PX,
) -> tuple[int, int]:
    """Height and width in pixels, multiples of `factor`, their product within the budget.

    Keeps the aspect ratio as nearly as the grid allows.

    Raises:
        ValueError: one side is more than 200 times the other.
    """
    if max(height, width) / min(height, width) > MAX_ASPECT_RATIO:
        raise ValueError(f"aspect ratio of {width} x {height} is above {MAX_ASPECT_RATIO}")
    new_height = round(height / factor) * factor
    new_width = round(width / factor) * factor
    if new_height * new_width > max_pixels:
        scale = math.sqrt(height * width / max_pixels)
        new_height = max(factor, math.floor(height / scale / factor) * factor)
        new_width = max(factor, math.floor(width / scale / factor) * factor)
    elif new_height * new_width < min_pixels:
        scale = math.sqrt(min_pixels / (height * width))
        new_height = math.ceil(height * scale / factor) * factor
        new_width = math.ceil(width * scale / factor) * factor
    return new_height, new_width


def tokens_per_frame(height: int, width: int, max_pixels: int) -> int:
    """Image tokens of one frame after `smart_resize`."""
    new_height, new_width = smart_resize(height, width, max_pixels)
    return new_height * new_width // TOKEN_SIDE_PX**2


def tokens_per_turn(max_pixels: int) -> int:
    """The most that one frame's turn takes, about: its image and the text around it."""
    return max_pixels // TOKEN_SIDE_PX**2 + TEXT_TOKENS_PER_TURN


def check_holds_one_turn(max_context_tokens: int, max_pixels: int) -> None:
    """Raises ValueError, as a recipe's validator does, if not even one turn fits."""
    fewest = tokens_per_turn(max_pixels)
    if max_context_tokens < fewest:
        raise ValueError(
            f"at least {fewest}, one frame of max_pixels {max_pixels} "
            f"with the {TEXT_TOKENS_PER_TURN} text tokens of its turn"
        )
