"""The interfaces are what clients were compiled against; the wheels' stand-ins are what real nodes speak."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from ament_index_python.packages import get_package_share_directory

ROOT = Path(__file__).resolve().parents[1]
KNOWN: dict[str, str] = json.loads((ROOT / 'test/interface_hashes.json').read_text())
OWN = sorted(
    f'hylo_memory_ros/{kind}/{path.stem}'
    for kind in ('msg', 'srv', 'action')
    for path in (ROOT / kind).glob(f'*.{kind}')
)
SERVICES = [name.rpartition('/')[2] for name in OWN if '/srv/' in name]


def type_hash(name: str) -> str:
    package, kind, stem = name.split('/')
    described = json.loads((Path(get_package_share_directory(package)) / kind / f'{stem}.json').read_text())
    return next(entry['hash_string'] for entry in described['type_hashes'] if entry['type_name'] == name)


def own(kind: str, name: str) -> Any:
    return getattr(importlib.import_module(f'hylo_memory_ros.{kind}'), name)


@pytest.mark.parametrize('name', sorted({*KNOWN, *OWN}))
def test_type_hash_is_the_one_that_clients_know(name: str) -> None:
    """A difference breaks every client. If it is meant and not yet released, change interface_hashes.json."""
    assert type_hash(name) == KNOWN.get(name)


@pytest.mark.parametrize('name', SERVICES)
def test_response_ends_with_the_outcome(name: str) -> None:
    fields = own('srv', name).Response.get_fields_and_field_types()
    assert list(fields.items())[-3:] == [
        ('success', 'boolean'),
        ('error_code', 'uint16'),
        ('message', 'string'),
    ]


def test_defaults_are_those_of_a_request_typed_by_hand() -> None:
    assert own('msg', 'MemoryItem')().confidence == 1.0
    assert own('srv', 'Query').Request().k == 10
    assert own('srv', 'Render').Request().k == 10
    assert own('srv', 'ReportAbsent').Request().confidence == 1.0
    assert own('msg', 'MemoryFilter')().near.header.frame_id == ''


def test_covariance_holds_36_values_at_most() -> None:
    item = own('msg', 'MemoryItem')(check_fields=True)
    item.covariance = [0.0] * 36
    with pytest.raises(AssertionError):
        item.covariance = [0.0] * 37


def test_codes_are_grouped_by_their_hundreds() -> None:
    code = own('msg', 'ErrorCode')
    assert code.OK == 0
    assert {code.INVALID_REQUEST // 100, code.INVALID_FIELD // 100, code.TOO_LARGE // 100} == {1}
    assert {code.FRAME_UNKNOWN // 100, code.TRANSFORM_TOO_OLD // 100, code.CLOCK // 100} == {2}
    assert {code.STORE_FULL // 100, code.ID_CONFLICT // 100, code.DAMAGED // 100} == {3}
    assert {code.NOT_ACTIVE // 100, code.LOADING // 100, code.TRANSFORM_TOO_NEW // 100} == {4}
    assert code.INTERNAL // 100 == 5


def test_generated_and_written_modules_are_one_package() -> None:
    package = importlib.import_module('hylo_memory_ros')
    assert Path(package.__file__ or '').parent == ROOT / 'hylo_memory_ros'
    assert own('msg', 'MemoryItem').__module__.startswith('hylo_memory_ros.msg')
    assert own('action', 'Maintain').Goal.VERIFY == 'verify'
