"""The toy world's nouns: things, places, hands, and what one frame shows.

A thing is a colour and a shape at a place. Some (colour, shape, place) triples are kept for the
test split alone, so that a test stream's target was never seen in training, though its colour, its
shape and its place were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 80, 225),
    "yellow": (245, 215, 40),
    "purple": (150, 50, 190),
    "white": (245, 245, 245),
}
SHAPES = ("ball", "cone", "cup", "flag", "ring")
# place -> (base colour, stripe colour, domain of its intent streams)
PLACES: dict[str, tuple[tuple[int, int, int], tuple[int, int, int], str]] = {
    "table": ((70, 45, 25), (58, 37, 20), "cooking"),
    "floor": ((52, 52, 56), (42, 42, 46), "dailylife"),
    "shelf": ((30, 42, 62), (24, 34, 52), "shopping"),
    "lawn": ((30, 58, 28), (24, 48, 22), "sports"),
}
Gesture = Literal["grabs", "taps"]
GESTURES: tuple[Gesture, ...] = ("grabs", "taps")
NAMES = ("Mia", "Tom", "Ana", "Leo", "Eva", "Max")
JOBS = ("nurse", "pilot", "baker", "coach", "actor", "judge")
PURPOSES = ("a game", "a gift", "a class", "a show", "a party", "a photo")
_HELD_OUT_SHARE = 5  # one triple in five


@dataclass(frozen=True)
class Thing:
    """One object of the world."""

    colour: str
    shape: str

    def __str__(self) -> str:
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True)
class Hand:
    """A hand that does something to the thing in a slot."""

    gesture: Gesture
    slot: int


@dataclass(frozen=True)
class Frame:
    """What one second of video shows.

    Attributes:
        slots: the thing in view on the left and on the right, None where there is none.
        is_occluded: whether a board stands before each slot; what is behind it is out of view.
        hand: the hand in view, or None.
    """

    slots: tuple[Thing | None, Thing | None]
    is_occluded: tuple[bool, bool] = (False, False)
    hand: Hand | None = None

    def visible(self) -> list[Thing]:
        """Things in view, left to right."""
        pairs = zip(self.slots, self.is_occluded, strict=True)
        return [thing for thing, hidden in pairs if thing and not hidden]


def is_held_out(thing: Thing, place: str) -> bool:
    """Whether this combination belongs to the test split alone."""
    code = list(COLOURS).index(thing.colour) + 2 * SHAPES.index(thing.shape)
    return (code + list(PLACES).index(place)) % _HELD_OUT_SHARE == 0


def all_things() -> list[Thing]:
    """Every colour with every shape."""
    return [Thing(colour, shape) for colour in COLOURS for shape in SHAPES]
