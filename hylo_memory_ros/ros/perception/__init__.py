"""Perception of the node: subscribers, transforms, and the placement of poses.

Callbacks only queue; the writer's thread decodes, processes and commits. `perception` is the whole.
"""
