"""Perception becomes landmarks: ordering, ledger, association; without ROS.

A node builds `Message` from what it receives, offers it to a `LandmarkPipeline`, polls when
transforms arrive, and commits once a second.
"""

from __future__ import annotations

from hylo_memory_ros.landmarks.editing import Edit, EditOp
from hylo_memory_ros.landmarks.observation import Deletion, Detections, Message, digest32
from hylo_memory_ros.landmarks.pipeline import LandmarkPipeline, Offer
from hylo_memory_ros.landmarks.reporting import AbsenceAnswer, AbsenceReport
from hylo_memory_ros.landmarks.settings import InputSettings, LandmarkSettings
from hylo_memory_ros.landmarks.status import InputStatus, PipelineStatus
from hylo_memory_ros.landmarks.trajectory import Correction, PathCorrection, RigidCorrection, Trajectory

__all__ = [
    'AbsenceAnswer',
    'AbsenceReport',
    'Correction',
    'Deletion',
    'Detections',
    'Edit',
    'EditOp',
    'InputSettings',
    'InputStatus',
    'LandmarkPipeline',
    'LandmarkSettings',
    'Message',
    'Offer',
    'PathCorrection',
    'PipelineStatus',
    'RigidCorrection',
    'Trajectory',
    'digest32',
]
