"""A BERT encoder as an ONNX graph, made from the weights of a model file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ['graph', 'weights']

_OPSET = 17


def weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the float32 tensors of a safetensors file: a length, a JSON header, the data."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], 'little')
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if isinstance(entry, dict) and entry.get('dtype') == 'F32':
            start, end = (8 + size + offset for offset in entry['data_offsets'])
            tensors[name] = np.frombuffer(data[start:end], '<f4').reshape(entry['shape'])
    return tensors


class _Builder:
    """Collects nodes and constants."""

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        from onnx import helper, numpy_helper  # noqa: PLC0415

        self._helper, self._numpy = helper, numpy_helper
        self._tensors = tensors
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        out = f'{kind}_{len(self.nodes)}'
        self.nodes.append(self._helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants[name] = self._numpy.from_array(np.ascontiguousarray(value), name)
        return name

    def tensor(self, name: str) -> str:
        return self.constant(name, self._tensors[name])

    def linear(self, value: str, name: str) -> str:
        weight = self.constant(f'{name}.weight', self._tensors[f'{name}.weight'].T)
        return self.node('Add', self.node('MatMul', value, weight), self.tensor(f'{name}.bias'))

    def normal(self, value: str, name: str, epsilon: float) -> str:
        scale, shift = self.tensor(f'{name}.weight'), self.tensor(f'{name}.bias')
        return self.node('LayerNormalization', value, scale, shift, axis=-1, epsilon=epsilon)

    def gelu(self, value: str) -> str:
        erf = self.node('Erf', self.node('Div', value, self.constant('sqrt2', np.float32(np.sqrt(2.0)))))
        grown = self.node('Add', erf, self.constant('one', np.float32(1.0)))
        return self.node('Mul', self.node('Mul', value, grown), self.constant('half', np.float32(0.5)))

    def heads(self, value: str, shape: str, order: list[int]) -> str:
        return self.node('Transpose', self.node('Reshape', value, shape), perm=order)

    def layer(self, value: str, mask: str, name: str, config: Mapping[str, Any]) -> str:
        heads, hidden = config['num_attention_heads'], config['hidden_size']
        split = self.constant('split', np.array([0, 0, heads, hidden // heads]))
        attention = f'{name}.attention'
        query, key, content = (
            self.linear(value, f'{attention}.self.{part}') for part in ('query', 'key', 'value')
        )
        scores = self.node(
            'MatMul', self.heads(query, split, [0, 2, 1, 3]), self.heads(key, split, [0, 2, 3, 1])
        )
        scale = self.constant('scale', np.float32(1.0 / np.sqrt(hidden // heads)))
        weight = self.node('Softmax', self.node('Add', self.node('Mul', scores, scale), mask), axis=-1)
        mixed = self.node('MatMul', weight, self.heads(content, split, [0, 2, 1, 3]))
        joined = self.heads_joined(mixed, hidden)
        epsilon = config['layer_norm_eps']
        there = self.node('Add', self.linear(joined, f'{attention}.output.dense'), value)
        value = self.normal(there, f'{attention}.output.LayerNorm', epsilon)
        wide = self.gelu(self.linear(value, f'{name}.intermediate.dense'))
        out = self.node('Add', self.linear(wide, f'{name}.output.dense'), value)
        return self.normal(out, f'{name}.output.LayerNorm', epsilon)

    def heads_joined(self, value: str, hidden: int) -> str:
        turned = self.node('Transpose', value, perm=[0, 2, 1, 3])
        return self.node('Reshape', turned, self.constant('joined', np.array([0, 0, hidden])))


def graph(tensors: Mapping[str, NDArray[np.float32]], config: Mapping[str, Any]) -> bytes:
    """Return an ONNX model: token ids and mask, (n, t) int64, to hidden states, (n, t, d) float32."""
    from onnx import TensorProto, helper  # noqa: PLC0415

    build = _Builder(tensors)
    words = build.node('Gather', build.tensor('embeddings.word_embeddings.weight'), 'ids')
    length = build.node('Slice', build.node('Shape', 'ids'), *_range_of(build))
    places = build.node(
        'Slice',
        build.tensor('embeddings.position_embeddings.weight'),
        build.constant('zero', np.array([0])),
        length,
        build.constant('first_axis', np.array([0])),
    )
    kinds = build.constant('kind', tensors['embeddings.token_type_embeddings.weight'][0])
    summed = build.node('Add', build.node('Add', words, kinds), places)
    value = build.normal(summed, 'embeddings.LayerNorm', config['layer_norm_eps'])
    seen = build.node('Unsqueeze', 'mask', build.constant('head_axes', np.array([1, 2])))
    hidden = build.node('Sub', build.node('Cast', seen, to=TensorProto.FLOAT), _one(build))
    mask = build.node('Mul', hidden, build.constant('far', np.float32(1e9)))
    for number in range(config['num_hidden_layers']):
        value = build.layer(value, mask, f'encoder.layer.{number}', config)
    shape = ['n', 't']
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ('ids', 'mask')]
    output = helper.make_tensor_value_info(value, TensorProto.FLOAT, [*shape, config['hidden_size']])
    made = helper.make_graph(build.nodes, 'bert', inputs, [output], list(build.constants.values()))
    # The oldest formats that have these operators: any supported onnxruntime reads them.
    model = helper.make_model(made, opset_imports=[helper.make_opsetid('', _OPSET)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def _range_of(build: _Builder) -> tuple[str, str]:
    return build.constant('from_1', np.array([1])), build.constant('to_2', np.array([2]))


def _one(build: _Builder) -> str:
    return build.constant('one', np.float32(1.0))
