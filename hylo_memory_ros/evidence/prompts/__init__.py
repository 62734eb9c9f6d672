"""Memory part of a prompt: `render`, with the renderers and token counters that it looks up by name.

The same memory and request give the same bytes. Other renderers and counters are entry points.
"""
