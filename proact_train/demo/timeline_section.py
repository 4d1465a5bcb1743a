"""The report's timelines: held-out streams with the answers of every stage under their frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eval.report import Timeline, build_timelines

from ..core.contracts import load_streams
from ..core.types import Prediction, Stream
from ..page.prose import render_heading, render_missing
from ..page.render import Section
from ..page.table import count
from ..page.timeline import (
    Lane,
    LaneCell,
    Strip,
    StripFrame,
    render_strip,
    render_strip_key,
)
from ..stream.store import FrameStore
from .folder import SFT, UNTRAINED, DemoFolder, rl_name
from .outcomes import judge
from .reading import load_stage_predictions
from .rows import row_name

STREAMS_PER_GROUP = 2
_TITLE = "Held-out streams, frame by frame"
_INTRO = (
    "The first streams with gold of each group in the order of the file, not the best ones. The "
    "answers of the untrained model, after SFT and after the first GSPO run stand under the same "
    "frames, each given on the model's own history. Small italics are thoughts."
)
_GOLD_WORDS = {"event": "alert", "intent": "reply once:"}


def build_timeline_section(folder: DemoFolder) -> Section:
    """Strips of object, action and intent streams, and which stages are missing."""
    if not folder.test_streams.is_file():
        missing = render_missing("Timelines", folder.shown(folder.test_streams))
        return Section(_TITLE, "", (missing,))
    streams = load_streams(folder.test_streams)
    parts: list[str] = [render_strip_key()]
    stages: dict[str, Mapping[str, Prediction]] = {}
    for name in (UNTRAINED, SFT, rl_name(folder.rl_seeds()[0])):
        found = load_stage_predictions(folder.predictions(name))
        if found is None:
            what = f"Answers {row_name(folder, name)}"
            parts.append(render_missing(what, folder.shown(folder.predictions(name))))
        else:
            stages[name] = found
    for group, picked in pick_by_group(streams).items():
        num_in_group = sum(group_of(stream) == group for stream in streams)
        shown = f"{len(picked)} of {count(num_in_group, 'held-out stream')}"
        parts.append(render_heading(f"{group.capitalize()}: {shown}"))
        parts += [render_strip(build_strip(folder, stream, stages)) for stream in picked]
    return Section(_TITLE, _INTRO, tuple(parts))


def group_of(stream: Stream) -> str:
    """An event stream's domain, or `intent`: the groups of the scores."""
    return stream.domain if stream.kind == "event" else "intent"


def pick_by_group(
    streams: Sequence[Stream], per_group: int = STREAMS_PER_GROUP
) -> dict[str, list[Stream]]:
    """The first streams with gold of each group, in file order; object, action, intent lead."""
    picked: dict[str, list[Stream]] = {"object": [], "action": [], "intent": []}
    for stream in streams:
        chosen = picked.setdefault(group_of(stream), [])
        if stream.intervals and len(chosen) < per_group:
            chosen.append(stream)
    return {group: chosen for group, chosen in picked.items() if chosen}


def build_strip(
    folder: DemoFolder, stream: Stream, stages: Mapping[str, Mapping[str, Prediction]]
) -> Strip:
    """One stream with a lane for each stage."""
    store = FrameStore(folder.frames, max_pixels=0)  # asked for paths only
    images = [store.frame_path(stream.id, idx) for idx in range(stream.num_frames)]
    (gold,) = build_timelines([stream], [], {stream.id: images})
    frames = tuple(
        StripFrame(frame.t_s, frame.is_gold, frame.gold_reply, frame.image) for frame in gold.frames
    )
    lanes = []
    for name, predictions in stages.items():
        prediction = predictions.get(stream.id)
        (timeline,) = build_timelines([stream], [prediction] if prediction else [])
        lanes.append(build_lane(row_name(folder, name), stream, timeline))
    domain = f"{stream.domain}, " if stream.kind == "intent" else ""
    facts = f"{domain}{count(stream.num_frames, 'frame')} at {stream.fps:g} a second"
    told = (*_told(stream), *([f"Profile: {_profile(stream)}"] if stream.profile else []))
    return Strip(stream.id, facts, told, _GOLD_WORDS[stream.kind], frames, tuple(lanes))


def build_lane(name: str, stream: Stream, timeline: Timeline) -> Lane:
    """A stage's answers with their outcomes."""
    outcomes = judge(stream, timeline)
    cells = tuple(
        LaneCell(frame.action, outcome, frame.thought, frame.text)
        for frame, outcome in zip(timeline.frames, outcomes.frames, strict=True)
    )
    return Lane(name, cells, outcomes.summary)


def _told(stream: Stream) -> list[str]:
    queries = [f"Asked at {query.t_s:g} s: {query.text}" for query in stream.query]
    return queries + [f"Memory: {text}" for text in stream.memory]


def _profile(stream: Stream) -> str:
    return ", ".join(f"{key} {value}" for key, value in (stream.profile or {}).items())
