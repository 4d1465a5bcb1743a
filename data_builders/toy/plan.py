"""Planning toy streams: what each frame shows, what is asked, and the exact gold.

Gold follows from the plan alone: an interval is a maximal run of frames in which the asked-for
thing is in view (or the asked-for act goes on), so a thing behind a board splits its interval.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from proact_train.core.types import Interval, Query, Source, Stream, Video

from .world import (
    GESTURES,
    JOBS,
    NAMES,
    PLACES,
    PURPOSES,
    Frame,
    Gesture,
    Hand,
    Thing,
    all_things,
    is_held_out,
)

Use = Literal["object", "action", "intent"]
USES: tuple[Use, ...] = ("object", "action", "intent")
NUM_FRAMES = 10
FPS = 1.0
DATASET, LICENCE = "toy", "Apache-2.0"


@dataclass(frozen=True)
class Plan:
    """A stream before it is rendered."""

    use: Use
    place: str
    target: Thing
    gesture: Gesture
    frames: tuple[Frame, ...]


def plan_stream(rng: random.Random, use: Use, split: str, place: str) -> Plan:
    """Samples what happens in one stream of `NUM_FRAMES` seconds.

    The target is in view for two to four frames, once or twice, sometimes hidden in the middle;
    other things, near twins of the target among them, come and go beside it.
    """
    allowed = [thing for thing in all_things() if split == "test" or not is_held_out(thing, place)]
    held_out = [thing for thing in allowed if is_held_out(thing, place)]
    target = rng.choice(held_out if split == "test" else allowed)
    others = [thing for thing in allowed if thing != target]
    twins = [t for t in others if (t.colour == target.colour) != (t.shape == target.shape)]
    tracks = [_distractor_track(rng, others, twins), _distractor_track(rng, others, twins)]
    hidden = [[False] * NUM_FRAMES, [False] * NUM_FRAMES]
    slot = rng.randrange(2)
    for start, length in _spans(rng):
        for idx in range(start, start + length):
            tracks[slot][idx] = target
        if length == 4 and rng.random() < 0.6:
            hidden[slot][start + rng.choice((1, 2))] = True
    gesture = rng.choice(GESTURES)
    hands = _hands(rng, tracks, hidden, target, gesture) if use == "action" else {}
    frames = tuple(
        Frame((tracks[0][idx], tracks[1][idx]), (hidden[0][idx], hidden[1][idx]), hands.get(idx))
        for idx in range(NUM_FRAMES)
    )
    return Plan(use, place, target, gesture, frames)


def shorten(plan: Plan, num_frames: int, rng: random.Random) -> Plan:
    """`num_frames` of a plan around a moment that counts: mostly where an interval begins."""
    start, end = rng.choice(gold_runs(plan) or [(NUM_FRAMES // 2, NUM_FRAMES // 2 + 1)])
    first = rng.choice((start - 1, start - 1, start, end - 1))
    first = max(0, min(NUM_FRAMES - num_frames, first))
    return replace(plan, frames=plan.frames[first : first + num_frames])


def to_stream(
    plan: Plan, stream_id: str, video_path: str, split: str, rng: random.Random
) -> Stream:
    """The stream of a plan, with query or profile and memory, gold intervals and gold thoughts."""
    name, job, purpose = rng.choice(NAMES), rng.choice(JOBS), rng.choice(PURPOSES)
    is_intent = plan.use == "intent"
    reply = f"{name}, here is the {plan.target} for {purpose}." if is_intent else None
    return Stream(
        id=stream_id,
        video=Video(video_path, len(plan.frames) / FPS),
        kind="intent" if is_intent else "event",
        domain=PLACES[plan.place][2] if is_intent else plan.use,
        source=Source(DATASET, split, LICENCE),
        fps=FPS,
        query=() if is_intent else (Query(0.0, query_text(plan)),),
        profile={"name": name, "job": job} if is_intent else None,
        memory=(f"{name} needs the {plan.target} for {purpose}.",) if is_intent else (),
        intervals=tuple(Interval(start / FPS, end / FPS, reply) for start, end in gold_runs(plan)),
        thoughts={idx: thought(plan, frame) for idx, frame in enumerate(plan.frames)},
    )


def query_text(plan: Plan) -> str:
    """What the user asks for at the start of an event stream."""
    if plan.use == "object":
        return f"Watch for the {plan.target}: alert me when it is in view."
    return f"Watch for the {plan.target}: alert me when a hand {plan.gesture} it."


def is_asked_for(plan: Plan, frame: Frame) -> bool:
    """Whether a frame shows what the stream is about."""
    if plan.use != "action":
        return plan.target in frame.visible()
    hand = frame.hand
    return (
        hand is not None and hand.gesture == plan.gesture and frame.slots[hand.slot] == plan.target
    )


def gold_runs(plan: Plan) -> list[tuple[int, int]]:
    """Maximal runs of asked-for frames as half-open pairs of frame indices."""
    runs: list[tuple[int, int]] = []
    for idx, frame in enumerate(plan.frames):
        if not is_asked_for(plan, frame):
            continue
        if runs and runs[-1][1] == idx:
            runs[-1] = (runs[-1][0], idx + 1)
        else:
            runs.append((idx, idx + 1))
    return runs


def thought(plan: Plan, frame: Frame) -> str:
    """The gold thought: what is wanted, what is in view on the left and right, whether it fits.

    Every word that describes a thing is judged where it stands (in action streams those of the hand
    and what it touches), so that the answer only repeats what the thought found.
    """
    is_action = plan.use == "action"
    seen = []
    for side, thing, hidden in zip(("left", "right"), frame.slots, frame.is_occluded, strict=True):
        if thing is None or hidden:
            seen.append(f"{side} none")
        else:
            seen.append(f"{side} {thing if is_action else _judged(thing, plan.target)}")
    if is_action:
        seen.append(_hand_clause(plan, frame))
    wanted = f"{plan.target}, hand {plan.gesture}" if is_action else str(plan.target)
    return f"want {wanted}, {', '.join(seen)}"


def _hand_clause(plan: Plan, frame: Frame) -> str:
    if frame.hand is None:
        return "no hand"
    touched = frame.slots[frame.hand.slot]
    assert touched is not None
    fits = _yes_no(frame.hand.gesture == plan.gesture)
    return f"hand {frame.hand.gesture} {fits} {_judged(touched, plan.target)}"


def _judged(thing: Thing, target: Thing) -> str:
    """A thing's words, each followed by whether it is the target's: "red yes ball no"."""
    colour, shape = _yes_no(thing.colour == target.colour), _yes_no(thing.shape == target.shape)
    return f"{thing.colour} {colour} {thing.shape} {shape}"


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _spans(rng: random.Random) -> list[tuple[int, int]]:
    """One or two (start, length) of the target, at least two frames apart."""
    if rng.random() < 0.4:
        first, second = rng.randint(1, 2), rng.randint(6, 7)
        return [(first, 2), (second, 2)]
    length = rng.choice((2, 3, 4))
    return [(rng.randint(1, NUM_FRAMES - length), length)]


def _distractor_track(
    rng: random.Random, others: list[Thing], twins: list[Thing]
) -> list[Thing | None]:
    """Things that come and go in one slot: runs of one to four frames, a third of them empty."""
    track: list[Thing | None] = []
    while len(track) < NUM_FRAMES:
        pool = twins if twins and rng.random() < 0.5 else others
        thing = None if rng.random() < 0.34 else rng.choice(pool)
        track += [thing] * rng.randint(1, 4)
    return track[:NUM_FRAMES]


def _hands(
    rng: random.Random,
    tracks: list[list[Thing | None]],
    hidden: list[list[bool]],
    target: Thing,
    gesture: Gesture,
) -> dict[int, Hand]:
    """A hand in most frames that show a thing; on the target mostly the asked-for gesture."""
    hands: dict[int, Hand] = {}
    for idx in range(NUM_FRAMES):
        slots = [slot for slot in (0, 1) if tracks[slot][idx] and not hidden[slot][idx]]
        on_target = [slot for slot in slots if tracks[slot][idx] == target]
        if on_target and rng.random() < 0.85:
            other: Gesture = next(g for g in GESTURES if g != gesture)
            shown: Gesture = gesture if rng.random() < 0.75 else other
            hands[idx] = Hand(shown, on_target[0])
        elif slots and rng.random() < 0.6:
            hands[idx] = Hand(rng.choice(GESTURES), rng.choice(slots))
    return hands
