"""The one tokenization of a conversation, shared by SFT, RL and evaluation.

The processor's chat template says where everything stands; the tokens are made piece by piece, cut
at the edges of the assistant's answers. So the tokens before an answer never depend on the answer,
and the SFT prefix of a turn is its generation prompt, token for token, whatever the answer begins
with.

Nothing is ever truncated here. What the messages say: `stream/prompt.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from ..core.errors import DataError
from ..core.types import Message
from ..stream.resize import TOKEN_SIDE_PX, smart_resize

END_OF_TURN = "<|im_end|>"
IMAGE_PAD = "<|image_pad|>"
FrameImage = Image.Image | str | Path
# Private-use characters that mark an answer's place while the template renders; never tokenized.
_HOLE = "\ue0f0{}\ue0f1"


@dataclass(frozen=True)
class TurnSpan:
    """Tokens `[start, end)` of one assistant answer, its `<|im_end|>` included."""

    start: int
    end: int


@dataclass(frozen=True)
class Encoded:
    """A tokenized conversation (or a piece of one).

    Attributes:
        input_ids: int64; every image place already widened to the tokens of its features.
        mm_token_type_ids: int64; 1 on image tokens, 0 elsewhere.
        pixel_values: float32 patches of all images in order; no rows without images.
        image_grid_thw: int64 patch grid of each image (1, height, width).
        loss_weights: float32; 0 on everything but the assistants' answers and their `<|im_end|>`,
            which carry the message's `loss_weight` (1 if absent).
        turn_ids: int64; index of the assistant turn that a token answers, -1 outside of answers.
        turns: the answers' spans, in order.
    """

    input_ids: Int[Tensor, " tokens"]
    mm_token_type_ids: Int[Tensor, " tokens"]
    pixel_values: Float[Tensor, "patches patch_dim"]
    image_grid_thw: Int[Tensor, "images 3"]
    loss_weights: Float[Tensor, " tokens"]
    turn_ids: Int[Tensor, " tokens"]
    turns: tuple[TurnSpan, ...]

    def __len__(self) -> int:
        return int(self.input_ids.shape[0])


@dataclass(frozen=True)
class _Piece:
    token_ids: list[int]
    loss_weight: float = 0.0
    is_answer: bool = False


def encode(
    processor: Any, messages: Sequence[Message], images: Sequence[FrameImage], where: str = ""
) -> Encoded:
    """Tokenizes a conversation.

    Args:
        processor: a Qwen3VLProcessor from `load.load_processor`.
        messages: as `stream/prompt.py` builds them. A conversation that ends with the user is a
            generation prompt and gets the assistant's header.
        images: one for each image place, in order: PIL images or paths.
        where: what to name in an error: a stream or decision id, a file and line.

    Raises:
        DataError: image places and images differ in number, an image cannot be read, or a text
            contains one of the model's control tokens.
    """
    pieces = _pieces(processor, messages, where)
    return _assemble(processor, pieces, images, where)


def encode_turn(
    processor: Any,
    new_messages: Sequence[Message],
    images: Sequence[FrameImage],
    is_first: bool,
    where: str = "",
) -> Encoded:
    """Tokenizes what is new at a turn, for a session that keeps its cache.

    Args:
        new_messages: what stands between the previous answer and this one (usually one user
            message); on the first turn the whole prompt.
        images: the images of these messages.
        is_first: whether no answer stands before them.

    Returns:
        The piece from behind the previous answer's `<|im_end|>` up to and including this turn's
        assistant header. Pieces and answers (each closed with `<|im_end|>`), one after the other,
        equal `encode` of the whole conversation.
    """
    assert new_messages[-1]["role"] == "user"
    assert all(message["role"] != "assistant" for message in new_messages)
    if is_first:
        return encode(processor, new_messages, images, where)
    text = [{"type": "text", "text": ""}]
    before: list[Message] = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": text},
    ]
    pieces = _pieces(processor, [*before, *new_messages], where)
    return _assemble(processor, pieces[2:], images, where)


def count_tokens(
    processor: Any, messages: Sequence[Message], images: Sequence[FrameImage], where: str = ""
) -> int:
    """Length of `encode`'s result, from the texts and the images' sizes alone (no pixel is read).

    Raises:
        DataError: as `encode`, as far as that shows without pixels.
    """
    token_ids = [idx for piece in _pieces(processor, messages, where) for idx in piece.token_ids]
    num_places = token_ids.count(int(processor.image_token_id))
    _check_places(num_places, len(images), where)
    size = processor.image_processor.size
    num_image_tokens = 0
    for image in images:
        width, height = _image_size(image, where)
        resized = smart_resize(height, width, size["longest_edge"], size["shortest_edge"])
        num_image_tokens += resized[0] * resized[1] // TOKEN_SIDE_PX**2
    return len(token_ids) - num_places + num_image_tokens


def encode_answer(processor: Any, text: str) -> list[int]:
    """Token ids of an answer as it stands in a conversation, closed with `<|im_end|>`."""
    return [*_tokenize(processor, text), end_of_turn_id(processor)]


def decode_answer(processor: Any, token_ids: Sequence[int]) -> str:
    """The raw text of an answer; a closing `<|im_end|>` is cut off, other tokens stay visible."""
    token_ids = list(token_ids)
    if token_ids and token_ids[-1] == end_of_turn_id(processor):
        token_ids.pop()
    return processor.tokenizer.decode(
        token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
    )


def end_of_turn_id(processor: Any) -> int:
    """Id of `<|im_end|>`."""
    return int(processor.tokenizer.convert_tokens_to_ids(END_OF_TURN))


def concatenate(parts: Sequence[Encoded]) -> Encoded:
    """One conversation out of consecutive pieces; turns are numbered anew."""
    offset, num_turns = 0, 0
    turn_ids: list[Tensor] = []
    turns: list[TurnSpan] = []
    for part in parts:
        turn_ids.append(torch.where(part.turn_ids >= 0, part.turn_ids + num_turns, -1))
        turns += [TurnSpan(turn.start + offset, turn.end + offset) for turn in part.turns]
        offset, num_turns = offset + len(part), num_turns + len(part.turns)
    joined = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in (
            "input_ids",
            "mm_token_type_ids",
            "pixel_values",
            "image_grid_thw",
            "loss_weights",
        )
    }
    return replace(parts[0], **joined, turn_ids=torch.cat(turn_ids), turns=tuple(turns))


def model_inputs(encoded: Encoded, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Arguments of the model's forward for one unpadded row (batch 1)."""
    inputs = {
        "input_ids": encoded.input_ids[None].to(device),
        "mm_token_type_ids": encoded.mm_token_type_ids[None].to(device),
    }
    if len(encoded.image_grid_thw):
        inputs["pixel_values"] = encoded.pixel_values.to(device)
        inputs["image_grid_thw"] = encoded.image_grid_thw.to(device)
    return inputs


def _pieces(processor: Any, messages: Sequence[Message], where: str) -> list[_Piece]:
    """Renders with holes for the answers and tokenizes what stands between them and the answers."""
    answers = [message for message in messages if message["role"] == "assistant"]
    _check_texts(processor, messages, where)
    with_holes, num_holes = [], 0
    for message in messages:
        if message["role"] == "assistant":
            hole = [{"type": "text", "text": _HOLE.format(num_holes)}]
            with_holes.append({"role": "assistant", "content": hole})
            num_holes += 1
        else:
            with_holes.append({"role": message["role"], "content": message["content"]})
    rest = processor.apply_chat_template(
        with_holes, tokenize=False, add_generation_prompt=messages[-1]["role"] == "user"
    )
    pieces: list[_Piece] = []
    for idx, answer in enumerate(answers):
        before, _, rest = rest.partition(_HOLE.format(idx))
        assert rest.startswith(END_OF_TURN), "the chat template does not close answers as Qwen's"
        rest = rest[len(END_OF_TURN) :]
        pieces.append(_Piece(_tokenize(processor, before)))
        text = "".join(part["text"] for part in answer["content"])
        weight = answer.get("loss_weight")
        weight = 1.0 if weight is None else float(weight)
        pieces.append(_Piece(encode_answer(processor, text), weight, is_answer=True))
    pieces.append(_Piece(_tokenize(processor, rest)))
    return pieces


def _assemble(
    processor: Any, pieces: Sequence[_Piece], images: Sequence[FrameImage], where: str
) -> Encoded:
    image_pad_id = int(processor.image_token_id)
    num_places = sum(piece.token_ids.count(image_pad_id) for piece in pieces)
    _check_places(num_places, len(images), where)
    pixel_values, image_grid_thw = _process_images(processor, images, where)
    merge_area = processor.image_processor.merge_size**2
    tokens_per_image = iter((image_grid_thw.prod(-1) // merge_area).tolist())
    input_ids: list[int] = []
    loss_weights: list[float] = []
    turn_ids: list[int] = []
    turns: list[TurnSpan] = []
    for piece in pieces:
        start = len(input_ids)
        for token_id in piece.token_ids:
            is_image = token_id == image_pad_id
            input_ids += [token_id] * (next(tokens_per_image) if is_image else 1)
        num_new = len(input_ids) - start
        loss_weights += [piece.loss_weight] * num_new
        turn_ids += [len(turns) if piece.is_answer else -1] * num_new
        if piece.is_answer:
            turns.append(TurnSpan(start, len(input_ids)))
    ids = torch.tensor(input_ids, dtype=torch.long)
    types = (ids == image_pad_id).long()
    assert int(types.sum()) * merge_area == len(pixel_values), "image tokens and features differ"
    return Encoded(
        input_ids=ids,
        mm_token_type_ids=types,
        pixel_values=pixel_values,
        image_grid_thw=image_grid_thw,
        loss_weights=torch.tensor(loss_weights, dtype=torch.float32),
        turn_ids=torch.tensor(turn_ids, dtype=torch.long),
        turns=tuple(turns),
    )


def _check_places(num_places: int, num_images: int, where: str) -> None:
    if num_places != num_images:
        raise DataError(
            where or "conversation",
            f"{num_places} image places for {num_images} images",
            "one image for each place",
            "Pass the images of exactly these messages, in order.",
        )


def _process_images(
    processor: Any, images: Sequence[FrameImage], where: str
) -> tuple[Tensor, Tensor]:
    image_processor = processor.image_processor
    if not images:
        patch_dim = 3 * image_processor.temporal_patch_size * image_processor.patch_size**2
        return torch.zeros(0, patch_dim), torch.zeros(0, 3, dtype=torch.long)
    loaded = [_load_image(image, where) for image in images]
    features = image_processor(images=loaded, return_tensors="pt")
    return features["pixel_values"], features["image_grid_thw"]


def _image_size(image: FrameImage, where: str) -> tuple[int, int]:
    """Width and height in pixels; of a file, only the header is read."""
    if isinstance(image, Image.Image):
        return image.size
    try:
        with Image.open(image) as file:
            return file.size
    except OSError as error:
        raise _unreadable(image, where, error) from None


def _load_image(image: FrameImage, where: str) -> Image.Image:
    if isinstance(image, Image.Image):
        return image.convert("RGB")
    try:
        with Image.open(image) as file:
            return file.convert("RGB")
    except OSError as error:
        raise _unreadable(image, where, error) from None


def _unreadable(image: FrameImage, where: str, error: OSError) -> DataError:
    return DataError(
        f"{where}: {image}" if where else str(image),
        f"no readable image ({type(error).__name__})",
        "a JPEG frame of the frame store",
        "Build the samples again; the frame store resumes where frames are missing.",
    )


def _tokenize(processor: Any, text: str) -> list[int]:
    return processor.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []


def _check_texts(processor: Any, messages: Sequence[Message], where: str) -> None:
    """A control token inside a text would be read as the model's own: refuse it."""
    controls = [token for token in processor.tokenizer.all_special_tokens if token]
    for idx, message in enumerate(messages):
        for part in message["content"]:
            text = part.get("text", "") if part["type"] == "text" else ""
            found = next((token for token in (*controls, "\ue0f0") if token in text), None)
            if found is not None:
                raise DataError(
                    f"{where or 'conversation'}, message {idx} ({message['role']})",
                    f"the control token {found!r} inside a text",
                    "plain text",
                    "Remove it from the source's query, profile, memory, thought or reply.",
                )
