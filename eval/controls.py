"""Controls: does a model need what it is told, and what it sees?

Each function changes what streams tell or show and leaves their gold alone: predict with the
changed streams, score against the original ones. A model that uses its input falls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from proact_train.core.errors import DataError
from proact_train.core.types import Query, Stream, Video


def swap_told(streams: Sequence[Stream], seed: int = 0) -> list[Stream]:
    """Gives each stream the query, profile and memory of a stream of its domain that differs there.

    Query times stay. Another object may be in view at the same times, so the score need not be 0.

    Raises:
        DataError: all streams of a domain are told the same.
    """
    donors = _donors(streams, lambda stream: repr(_told_key(stream)), seed, "query or memory")
    return [
        replace(stream, query=_queries(stream, donor), profile=donor.profile, memory=donor.memory)
        for stream, donor in zip(streams, donors, strict=True)
    ]


def swap_frames(streams: Sequence[Stream], seed: int = 0) -> list[Stream]:
    """Shows each stream the video of another stream of its domain; lengths stay.

    Where the other video is shorter, its last frame stands; where it is longer, it is cut.

    Raises:
        DataError: all streams of a domain show the same video.
    """
    donors = _donors(streams, lambda stream: stream.video.path, seed, "video")
    return [
        replace(stream, video=Video(donor.video.path, stream.video.duration_s))
        for stream, donor in zip(streams, donors, strict=True)
    ]


def _told_key(stream: Stream) -> tuple[object, ...]:
    return tuple(query.text for query in stream.query), stream.profile, stream.memory


def _queries(stream: Stream, donor: Stream) -> tuple[Query, ...]:
    if not stream.query:
        return donor.query
    last = len(stream.query) - 1
    return tuple(
        replace(query, t_s=stream.query[min(idx, last)].t_s)
        for idx, query in enumerate(donor.query)
    )


def _donors(
    streams: Sequence[Stream], key: Callable[[Stream], str], seed: int, what: str
) -> list[Stream]:
    """A donor with another key for each stream, of the same kind and domain.

    A derangement where no key holds more than half of a domain; else donors repeat.
    """
    rng = random.Random(seed)
    donor_of: dict[str, Stream] = {}
    for kind, domain in sorted({(stream.kind, stream.domain) for stream in streams}):
        group = [stream for stream in streams if (stream.kind, stream.domain) == (kind, domain)]
        group.sort(key=lambda stream: stream.id)
        rng.shuffle(group)
        keys = [key(stream) for stream in group]
        most = max(keys.count(value) for value in keys)
        if most == len(group):
            raise DataError(
                f"domain {domain!r}",
                f"the same {what} in all {len(group)} streams",
                f"at least two different ones to swap the {what}",
                "Run this control on more streams.",
            )
        # Equal keys stand together (blocks in shuffled order): a shift by the largest parts them.
        block = {value: idx for idx, value in enumerate(dict.fromkeys(keys))}
        group.sort(key=lambda stream: block[key(stream)])
        for idx, stream in enumerate(group):
            donor = group[(idx + most) % len(group)]
            if key(donor) == key(stream):
                donor = rng.choice([other for other in group if key(other) != key(stream)])
            donor_of[stream.id] = donor
    return [donor_of[stream.id] for stream in streams]
