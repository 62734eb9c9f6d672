"""What the tests of the directory of skills open, put there and look at."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from hylo_memory_ros.domain.identity import content_bytes
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.skill_directory import file_name

LOCK = '.skills.lock'


def opened(folder: Path, **fields: Any) -> MemoryService:
    return MemoryService.open(f'sqlite:///{folder}/memory.db', **fields)


def file_of(item: MemoryItem) -> tuple[str, bytes]:
    data = content_bytes(item)
    return file_name(item.key or '', sha256(data).digest()), data


def put(directory: Path, *items: MemoryItem) -> list[str]:
    directory.mkdir(exist_ok=True)
    for name, data in map(file_of, items):
        (directory / name).write_bytes(data)
    return [file_of(item)[0] for item in items]


def names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()} - {LOCK}


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in names(directory)}
