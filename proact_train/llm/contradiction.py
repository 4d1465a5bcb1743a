"""Four rules for sentences that embeddings call alike although they contradict one another.

Sentence embedders put "the pan is hot" beside "the pan is not hot". The rules are blunt on purpose:
English only, words only. They never raise a score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+(?:'[a-z]+)?")
_NEGATIONS = frozenset(
    ("no", "not", "never", "none", "nothing", "nobody", "nowhere", "neither", "nor", "without")
)
_NUMBER_WORDS = {
    "zero": "0",
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "twelve": "12",
    "twenty": "20",
    "thirty": "30",
}
# Each side lists its inflections; a word of one side against a word of the other is one opposition.
_ANTONYMS = tuple(
    tuple(frozenset(side.split()) for side in line.split("|"))
    for line in (
        "left | right",
        "up | down",
        "on | off",
        "in | out",
        "inside | outside",
        "above | below",
        "over | under",
        "before | after",
        "open opens opened opening | close closes closed closing shut",
        "start starts started starting | stop stops stopped stopping",
        "push pushes pushed pushing | pull pulls pulled pulling",
        "raise raises raised raising | lower lowers lowered lowering",
        "add adds added adding | remove removes removed removing",
        "hot | cold",
        "full | empty",
        "clean | dirty",
        "wet | dry",
        "more | less fewer",
        "increase increases increased | decrease decreases decreased reduce reduces reduced",
        "safe | dangerous unsafe",
        "fast faster quickly | slow slower slowly",
        "early earlier | late later",
        "same | different",
        "visible | hidden absent",
        "enter enters entered entering | leave leaves left leaving exit exits",
        "pick picks picked picking | put puts putting drop drops dropped dropping",
        "buy buys bought buying | sell sells sold selling",
        "lock locks locked locking | unlock unlocks unlocked unlocking",
        "red | blue green yellow black white",
        "blue | green yellow black white",
        "green | yellow black white",
        "yellow | black white",
        "black | white",
    )
)


def contradicts(text: str, other: str) -> bool:
    """Whether one of the four rules says that two sentences mean different things.

    1. Both name numbers, and not the same ones.
    2. One is negated and the other is not (an odd number of negations apart).
    3. A pair of opposites tells them apart: "open" here, "closed" there. Rules 2 and 3 together
       cancel out: "not open" and "closed" agree.
    4. The same words stand in another order: "the cup is behind the box", "the box is behind the
       cup".
    """
    words, others = split_words(text), split_words(other)
    if _numbers(words) and _numbers(others) and _numbers(words) != _numbers(others):
        return True
    is_negated = (_num_negations(words) + _num_negations(others)) % 2 == 1
    if is_negated != _are_opposed(words, others):
        return True
    return words != others and sorted(words) == sorted(others)


def split_words(text: str) -> list[str]:
    """Lower-case words and numbers; number words become digits."""
    words: list[str] = _WORD.findall(text.lower().replace("’", "'"))
    return [_NUMBER_WORDS.get(word, word) for word in words]


def _numbers(words: Sequence[str]) -> list[str]:
    return sorted(word for word in words if word[0].isdigit())


def _num_negations(words: Sequence[str]) -> int:
    return sum(word in _NEGATIONS or word == "cannot" or word.endswith("n't") for word in words)


def _are_opposed(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a word and its opposite stand apart; words that both sentences use do not count."""
    mine, theirs = set(words) - set(others), set(others) - set(words)
    return any(
        (mine & one and theirs & two) or (mine & two and theirs & one) for one, two in _ANTONYMS
    )
