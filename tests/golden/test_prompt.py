"""The exact prompt of a fixed stream of each kind, as text and as token ids: reviewed files.

After a change that is meant, raise `PROMPT_VERSION`, run `UPDATE_GOLDEN=1 pytest tests/golden`
and read the difference.
"""

import json
import os
from pathlib import Path

import pytest

from proact_train.model.conversation import encode
from proact_train.model.load import load_processor
from proact_train.stream.prompt import PROMPT_VERSION, build_messages
from tests.unit.tiny_world import MAX_PIXELS, gold_texts, tiny_checkpoint, toy_stream

GOLDEN = Path(__file__).parent
STREAMS = {"object": 0, "action": 1, "intent": 2}


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory):
    return load_processor(tiny_checkpoint(tmp_path_factory.mktemp("tiny")), MAX_PIXELS)


@pytest.mark.parametrize("name", STREAMS)
def test_prompt_text_and_token_ids(processor, name: str):
    stream, images = toy_stream(STREAMS[name])
    messages = build_messages(stream, [0, 1, 2], gold_texts(stream)[:2])
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = encode(processor, messages, images[:3]).input_ids.tolist()
    check(GOLDEN / f"prompt_{name}.txt", f"{PROMPT_VERSION}\n{text}")
    check(GOLDEN / f"prompt_{name}_ids.json", json.dumps(ids) + "\n")


def check(path: Path, value: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(value, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == value, f"{path.name} changed"
