"""Pure rules of memory, without input and output: `timeline`, `identity`, `skills`, `consolidation`.

Imports `config`, `model`, `plugins` and `errors` only; `storage` and everything above it may import from
here.
"""
