"""Every service with whatever fits its types: answered, never as a fault, and the node lives."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ros.harness import Talker, spatial
from support.effort import scaled

from hylo_memory_ros.msg import ErrorCode
from hylo_memory_ros.ros.services import SERVICES

pytestmark = pytest.mark.ros

# The kinds of text that break things, and the words that fields expect.
WORDS = """
a
a
%
*
all
map
/map
//map
base_link
spatial
working
skill
x=y
on:O12
map_id=a
clip@1
{}
[]
null
payload
{"a": NaN}
{"a": [1e999]}
{"state": {"battery": 0.5}}
{"state": [], "skill_status": ["done"]}
{"params": {}, "api_surface": "a@1", "status": "proposed", "trigger": "battery > 0.3"}
; drop table item
../../etc/passwd
begin
end
{"episode": "a", "outcome": "useful"}
at:AAAA
sha256:00
useful
""".splitlines()
TEXTS = st.sampled_from(
    [*WORDS, ' ', 'a ', '\t', '{' * 200, 'x' * 600, '\ufffd', '\u00e9', 'e\u0301', '\u202e']
) | st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\0'), max_size=8)
FLOATS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e300, math.nan, math.inf, -math.inf]
) | st.floats(-10, 10)
RANGES = {f'int{bits}': (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    f'uint{bits}': (0, 2**bits - 1) for bits in (8, 16, 32, 64)
}
# A flush or a snapshot may wait, as it is told, longer than a test; a snapshot writes where it is told.
FIXED = {'timeout_s': 0.01, 'copy_path': ''}


def values(slot: Any) -> st.SearchStrategy[Any]:
    kind = type(slot).__name__
    if kind == 'BasicType':
        return numbers(slot.typename)
    if kind == 'UnboundedString':
        return TEXTS
    if kind == 'NamespacedType':
        module = __import__('.'.join(slot.namespaces), fromlist=[slot.name])
        return messages(getattr(module, slot.name))
    most = min(getattr(slot, 'maximum_size', 3), 3)
    if getattr(slot, 'maximum_size', 0) == 36:
        return st.sampled_from([0, 3, 36]).flatmap(lambda n: st.lists(FLOATS, min_size=n, max_size=n))
    return st.lists(values(slot.value_type), max_size=most)


def numbers(name: str) -> st.SearchStrategy[Any]:
    if name == 'boolean':
        return st.booleans()
    if name == 'double':
        return FLOATS
    if name == 'float':
        return FLOATS.map(lambda number: 1.0 if math.isfinite(number) and abs(number) > 3e38 else number)
    low, high = RANGES[name]
    return st.sampled_from([0, 1, low, high]) | st.integers(max(low, -3), min(high, 12))


@st.composite
def messages(draw: st.DrawFn, kind: Any) -> Any:
    """Draw a message; most fields stay unset, as in real requests."""
    message = kind()
    fields = list(zip(kind.get_fields_and_field_types(), kind.SLOT_TYPES, strict=True))
    small = kind.__name__ in ('Time', 'Point', 'Vector3', 'Quaternion', 'Header', 'Pose')
    for name, slot in fields:
        if name in FIXED:
            setattr(message, name, FIXED[name])
        elif small or draw(st.integers(0, 3)) == 0 or name in ('items', 'filter', 'kind', 'k'):
            setattr(message, name, draw(values(slot)))
    return message


@pytest.mark.parametrize('name', sorted(SERVICES))
def test_a_service_answers_whatever_it_is_asked(shared: SimpleNamespace, name: str) -> None:
    talker: Talker = shared.talker
    kind = SERVICES[name]

    @given(messages(kind.Request))
    @settings(
        max_examples=scaled(60),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    def ask(request: Any) -> None:
        answer = talker.call(kind, name, request)
        assert answer.error_code != ErrorCode.INTERNAL, (answer.message, request)
        assert answer.success == (answer.error_code == ErrorCode.OK)
        if not answer.success:
            assert answer.message

    ask()
    assert shared.process.alive
    assert talker.write(spatial('alive')).success
    assert talker.query(k=1).success


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {'tf_timeout_s': 0.01}
