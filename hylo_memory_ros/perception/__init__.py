"""Perception without ROS: observations become landmarks.

A caller builds `Message` from what it receives, offers it to a `LandmarkPipeline`, polls when transforms
arrive, and commits once a second. Statements are written through a port that `service` implements.
"""

from __future__ import annotations

from hylo_memory_ros.perception.corrections.trajectory import (
    Correction,
    PathCorrection,
    RigidCorrection,
    Trajectory,
)
from hylo_memory_ros.perception.edits import Edit, EditOp
from hylo_memory_ros.perception.existence.absence_reports import AbsenceAnswer, AbsenceReport
from hylo_memory_ros.perception.ingestion.ingestion_pipeline import Offer
from hylo_memory_ros.perception.ingestion.observation import Deletion, Detections, Message, digest32
from hylo_memory_ros.perception.pipeline import LandmarkPipeline
from hylo_memory_ros.perception.settings import InputSettings, LandmarkSettings
from hylo_memory_ros.perception.status import InputStatus, PipelineStatus

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
