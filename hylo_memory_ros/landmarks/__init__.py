"""Perception becomes landmarks: ordering, ledger, association; without ROS.

A node builds `Message` from what it receives, offers it to a `LandmarkPipeline`, polls when
transforms arrive, and commits once a second.
"""

from __future__ import annotations

from hylo_memory_ros.landmarks.observation import Deletion, Detections, Message, digest32
from hylo_memory_ros.landmarks.pipeline import LandmarkPipeline, Offer
from hylo_memory_ros.landmarks.settings import InputSettings, LandmarkSettings
from hylo_memory_ros.landmarks.status import InputStatus, PipelineStatus

__all__ = [
    'Deletion',
    'Detections',
    'InputSettings',
    'InputStatus',
    'LandmarkPipeline',
    'LandmarkSettings',
    'Message',
    'Offer',
    'PipelineStatus',
    'digest32',
]
