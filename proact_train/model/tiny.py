"""A tiny Qwen3-VL for laptops and tests: small configurations of the real classes.

`build_tiny_checkpoint` writes a folder that loads as the 8B model does: the real model class with
random weights, the real tokenizer class with a small byte-level BPE and Qwen's added tokens in
Qwen's order, the real processor and Qwen3-VL's chat template (trl ships it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, pre_tokenizers, trainers
from transformers import (
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

# (token, is special), in the order of Qwen's ids from 151643 on.
QWEN_ADDED_TOKENS: tuple[tuple[str, bool], ...] = (
    ("<|endoftext|>", True),
    ("<|im_start|>", True),
    ("<|im_end|>", True),
    ("<|object_ref_start|>", True),
    ("<|object_ref_end|>", True),
    ("<|box_start|>", True),
    ("<|box_end|>", True),
    ("<|quad_start|>", True),
    ("<|quad_end|>", True),
    ("<|vision_start|>", True),
    ("<|vision_end|>", True),
    ("<|vision_pad|>", True),
    ("<|image_pad|>", True),
    ("<|video_pad|>", True),
    ("<tool_call>", False),
    ("</tool_call>", False),
    ("<|fim_prefix|>", False),
    ("<|fim_middle|>", False),
    ("<|fim_suffix|>", False),
    ("<|fim_pad|>", False),
    ("<|repo_name|>", False),
    ("<|file_sep|>", False),
    ("<tool_response>", False),
    ("</tool_response>", False),
    ("<think>", False),
    ("</think>", False),
)
_IMAGE_MEAN_STD = [0.5, 0.5, 0.5]  # as Qwen3-VL's own preprocessor


@dataclass(frozen=True)
class TinySize:
    """Dimensions of a tiny model, and the spread of its random weights.

    The defaults give about 1.5M parameters. At transformers' usual spread of 0.02 a model this
    narrow takes several times as many steps before it attends to its frames.
    """

    hidden_size: int = 128
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 4
    head_dim: int = 64
    intermediate_size: int = 256
    vision_hidden_size: int = 96
    vision_depth: int = 2
    vision_num_heads: int = 4
    vision_intermediate_size: int = 192
    num_bpe_pieces: int = 640
    initializer_range: float = 0.1


SMALLEST = TinySize(
    hidden_size=32,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    intermediate_size=64,
    vision_hidden_size=32,
    vision_depth=2,
    vision_num_heads=2,
    vision_intermediate_size=64,
    num_bpe_pieces=480,
)


def build_tiny_checkpoint(
    out: str | Path,
    corpus: Iterable[str],
    seed: int = 0,
    size: TinySize | None = None,
    max_pixels: int = 64 * 64,
) -> Path:
    """Writes a loadable folder of a tiny Qwen3-VL with random weights.

    Args:
        corpus: texts that the BPE is trained on; frequent words become single tokens.
        seed: of the weights; the same arguments give the same bytes.
        size: dimensions; None takes the defaults of `TinySize`.
        max_pixels: ceiling of a frame's area in pixels (one token stands for 32 x 32).

    Returns:
        The folder.
    """
    out, size = Path(out), size or TinySize()
    tokenizer = build_tokenizer(corpus, size.num_bpe_pieces)
    processor = build_processor(tokenizer, max_pixels)
    generator_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(build_config(tokenizer, size))
    torch.random.set_rng_state(generator_state)
    assert model.generation_config is not None
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(out)
    processor.save_pretrained(out)
    return out


def build_tokenizer(corpus: Iterable[str], num_bpe_pieces: int) -> Qwen2Tokenizer:
    """A Qwen2Tokenizer whose byte-level BPE is trained on `corpus`, with Qwen's added tokens.

    Texts may hold added tokens (`<think>`, `<|im_start|>`); no piece reaches over one.
    """
    added = [token for token, _ in QWEN_ADDED_TOKENS]
    # As the tokenizer cuts them out before it looks for pieces.
    cut = re.compile("|".join(map(re.escape, added)))
    backend = Qwen2Tokenizer().backend_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=num_bpe_pieces,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator((part for text in corpus for part in cut.split(text)), trainer)
    bpe = json.loads(backend.to_str())["model"]
    pieces = sorted((idx, piece) for piece, idx in bpe["vocab"].items() if piece not in added)
    vocab = {piece: idx for idx, (_, piece) in enumerate(pieces)}
    merges: Any = [tuple(merge) for merge in bpe["merges"]]
    tokenizer = Qwen2Tokenizer(vocab=vocab, merges=merges)
    added_tokens: Any = [
        AddedToken(token, special=is_special, normalized=False)
        for token, is_special in QWEN_ADDED_TOKENS
    ]
    tokenizer.add_tokens(added_tokens)
    tokenizer.eos_token = "<|im_end|>"
    return tokenizer


def build_processor(tokenizer: Qwen2Tokenizer, max_pixels: int) -> Qwen3VLProcessor:
    """Qwen3-VL's processor around a tokenizer, with Qwen3-VL's chat template."""
    import trl

    template = Path(trl.__file__).parent / "chat_templates" / "qwen3_vl.jinja"
    vision = {
        "patch_size": 16,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_mean": _IMAGE_MEAN_STD,
        "image_std": _IMAGE_MEAN_STD,
    }
    pixels = {"shortest_edge": min(32 * 32, max_pixels), "longest_edge": max_pixels}
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**vision, size=pixels),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**vision),
        chat_template=template.read_text(encoding="utf-8"),
    )


def build_config(tokenizer: Qwen2Tokenizer, size: TinySize) -> Qwen3VLConfig:
    """The configuration of a tiny model that fits a tokenizer."""
    token_id: Any = tokenizer.convert_tokens_to_ids
    half = size.head_dim // 2
    third = half // 3
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": size.hidden_size,
            "intermediate_size": size.intermediate_size,
            "num_hidden_layers": size.num_layers,
            "num_attention_heads": size.num_heads,
            "num_key_value_heads": size.num_kv_heads,
            "head_dim": size.head_dim,
            "max_position_embeddings": 32768,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [half - 2 * third, third, third],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "initializer_range": size.initializer_range,
        },
        vision_config={
            "depth": size.vision_depth,
            "hidden_size": size.vision_hidden_size,
            "intermediate_size": size.vision_intermediate_size,
            "num_heads": size.vision_num_heads,
            "out_hidden_size": size.hidden_size,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
            "initializer_range": size.initializer_range,
        },
        image_token_id=token_id("<|image_pad|>"),
        video_token_id=token_id("<|video_pad|>"),
        vision_start_token_id=token_id("<|vision_start|>"),
        vision_end_token_id=token_id("<|vision_end|>"),
    )
