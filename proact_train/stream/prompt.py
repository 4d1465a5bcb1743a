"""The conversation: one function renders SFT samples, RL decisions and evaluation alike.

The texts are versioned; a golden snapshot of text and token ids guards them. Nothing later than the
time of a frame is ever in context at that frame.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..core.types import TIME_TOLERANCE_S, Kind, Message, Stream

PROMPT_VERSION = "proact.prompt/1"
PROMPT_NAMES: dict[Kind, str] = {"event": "alert", "intent": "intent"}

_RULES: dict[Kind, str] = {
    "event": (
        "You watch a first-person video, one frame at a time. "
        "While what the user asked for is in view, answer <Attention>; otherwise answer <Silence>."
    ),
    "intent": (
        "You watch a first-person video, one frame at a time, for the user below. "
        "When this moment calls for it, help the user with one short sentence, once; "
        "otherwise answer <Silence>."
    ),
}
_THOUGHT_RULE = "First think briefly about the frame inside <think></think>."


def system_text(stream: Stream, with_thought: bool = True) -> str:
    """The task's rules; for intent streams also the user's profile and memory."""
    parts = [_RULES[stream.kind]]
    if with_thought:
        parts.append(_THOUGHT_RULE)
    lines = [" ".join(parts)]
    if stream.kind == "intent":
        if stream.profile:
            lines.append("User: " + json.dumps(stream.profile, ensure_ascii=False, sort_keys=True))
        lines += [f"Memory: {entry}" for entry in stream.memory]
    return "\n".join(lines)


def time_mark(t_s: float) -> str:
    """Qwen3-VL's own time-mark form."""
    return f"<{t_s:.1f} seconds>"


def build_messages(
    stream: Stream,
    frames: Sequence[int],
    answers: Sequence[str],
    with_thought: bool = True,
) -> list[Message]:
    """Renders frames and the answers given so far.

    Args:
        frames: ascending frame indices; each becomes one user turn with one image.
        answers: raw assistant texts of the first `len(answers)` frames: as many as frames (a
            finished conversation) or one fewer (a prompt for the last frame).

    Returns:
        Messages with typed content; image places carry no path, the caller keeps the images in the
        order of `frames`. A query stands before the first frame at or after its time, also when
        earlier frames were dropped.
    """
    assert len(frames) - 1 <= len(answers) <= len(frames)
    messages: list[Message] = [_message("system", system_text(stream, with_thought))]
    told_until_s = float("-inf")
    for position, frame_idx in enumerate(frames):
        t_s = stream.frame_time_s(frame_idx)
        queries = [
            query.text
            for query in sorted(stream.query, key=lambda query: query.t_s)
            if told_until_s < query.t_s <= t_s + TIME_TOLERANCE_S
        ]
        told_until_s = t_s + TIME_TOLERANCE_S
        messages.append(_message("user", "\n".join([*queries, time_mark(t_s)]), has_image=True))
        if position < len(answers):
            messages.append(_message("assistant", answers[position]))
    return messages


def _message(role: str, text: str, has_image: bool = False) -> Message:
    content = [{"type": "text", "text": text}]
    if has_image:
        content.append({"type": "image"})
    return {"role": role, "content": content}
