"""The formulas of `model/forecast.py` against real models: two sizes, two number types."""

from __future__ import annotations

import pytest
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    Qwen3VLTextDecoderLayer,
    Qwen3VLTextRotaryEmbedding,
)

from proact_train.model import forecast

SIZES = [(256, 8, 2, 32, 768), (512, 8, 4, 64, 1024)]
NUM_TOKENS = 64


def build_config(hidden, heads, kv_heads, head_dim, intermediate):
    third = head_dim // 2 // 3
    rope = {
        "rope_type": "default",
        "rope_theta": 1e4,
        "mrope_section": [head_dim // 2 - 2 * third, third, third],
        "mrope_interleaved": True,
    }
    text = {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": intermediate,
        "num_hidden_layers": 2,
        "vocab_size": 640,
        "rope_parameters": rope,
    }
    vision = {
        "depth": 2,
        "hidden_size": 96,
        "intermediate_size": 192,
        "num_heads": 4,
        "out_hidden_size": hidden,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=1,
        video_token_id=2,
        vision_start_token_id=3,
        vision_end_token_id=4,
    )


@pytest.mark.parametrize("size", SIZES)
def test_parameters_equal_the_real_models(size):
    config = build_config(*size)
    real = Qwen3VLForConditionalGeneration(config)
    num_vision = sum(p.numel() for n, p in real.named_parameters() if "visual" in n)
    counted = forecast.count_parameters(config)
    assert counted.total == sum(p.numel() for p in real.parameters())
    assert counted.vision == num_vision
    assert counted.trainable == counted.total - num_vision
    hidden, heads, kv_heads, head_dim, intermediate = size
    pairs = [(hidden, heads * head_dim)] * 2 + [(hidden, kv_heads * head_dim)] * 2
    pairs += [(hidden, intermediate)] * 3
    adapter = forecast.count_parameters(config, lora=(4, 8))
    assert adapter.total == counted.total
    assert adapter.trainable == 2 * sum(4 * (a + b) for a, b in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
def test_one_layer_keeps_what_the_formula_says(size, dtype):
    config = build_config(*size)
    config.text_config._attn_implementation = "sdpa"
    layer = Qwen3VLTextDecoderLayer(config.text_config, 0).to(dtype)
    positions = torch.arange(NUM_TOKENS).view(1, 1, -1).expand(3, 1, -1)
    hidden = torch.randn(1, NUM_TOKENS, size[0], dtype=dtype, requires_grad=True)
    rotary = Qwen3VLTextRotaryEmbedding(config.text_config)(hidden, positions)
    weights = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)  # the tensor, so that it lives
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(hidden, position_embeddings=rotary, attention_mask=None, position_ids=None)
    measured = sum(num_bytes for num_bytes, _ in kept.values())
    dims = forecast.read_dimensions(config)
    assert measured == NUM_TOKENS * forecast.layer_bytes_per_token(dims, dtype.itemsize)


@pytest.mark.parametrize("size", SIZES)
def test_kv_cache_equals_the_formula(size):
    config = build_config(*size)
    model = Qwen3VLForConditionalGeneration(config)
    with torch.no_grad():
        output = model(input_ids=torch.full((1, NUM_TOKENS), 7), use_cache=True)
    cache = getattr(output, "cache", None) or output.past_key_values
    measured = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    dims = forecast.read_dimensions(config)
    assert measured == NUM_TOKENS * forecast.kv_bytes_per_token(dims, 4)


def test_states_by_hand():
    parameters = forecast.Parameters(total=1000, vision=100, trainable=800)
    whole = {"weights": 2000, "gradients": 1600, "optimiser": 12800}
    assert forecast.state_parts(parameters, 2, zero_stage=0, num_ranks=8) == whole
    zero2 = {"weights": 2000, "gradients": 200, "optimiser": 1600}
    assert forecast.state_parts(parameters, 2, zero_stage=2, num_ranks=8) == zero2
    zero3 = {"weights": 250, "gradients": 200, "optimiser": 1600, "gathered_weights": 2000}
    assert forecast.state_parts(parameters, 2, zero_stage=3, num_ranks=8) == zero3
    float32 = {"weights": 4000, "gradients": 3200, "optimiser": 6400}
    assert forecast.state_parts(parameters, 4, zero_stage=0, num_ranks=1) == float32
