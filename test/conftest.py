"""What every test shares: a DDS domain of its own, and child processes that import these sources."""

import fcntl
import importlib.util
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The model and the clauses of the store are also used elsewhere, and may be imported from there first.
pytest.register_assert_rewrite(
    'support', 'storage.clauses', 'storage.contract', 'storage.plain_memory', 'storage.sample'
)

# No deadline: how long an example takes depends on what else the machine does.
settings.register_profile('nightly', deadline=None, max_examples=100)
settings.register_profile('gate', deadline=None, max_examples=33, derandomize=True)
settings.load_profile('gate')  # --hypothesis-profile=nightly replaces it

# Where launch is installed, its plug-in makes all loggers its own kind, which hand nothing on to a test.
logging.setLoggerClass(logging.Logger)

ROOT = Path(__file__).resolve().parents[1]
DOMAINS = range(1, 102)  # the domains whose ports lie below Linux's ephemeral ones

os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
os.environ.setdefault('AMENT_PREFIX_PATH', sys.prefix)

# A shell that starts something in the background may have it ignore interrupts, and so what that starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if importlib.util.find_spec('rclpy') is None:
    collect_ignore = ['ros', 'test_interfaces.py', 'test_launch.py']


@pytest.fixture
def ros_domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return a domain id that no other test on this machine holds, also not one of a run beside this one."""
    folder = Path(tempfile.gettempdir()) / 'hylo_memory_ros_domains'
    folder.mkdir(mode=0o777, exist_ok=True)
    first = os.getpid() % len(DOMAINS)
    for domain in (*DOMAINS[first:], *DOMAINS[:first]):
        with (folder / str(domain)).open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            monkeypatch.setenv('ROS_DOMAIN_ID', str(domain))
            yield domain
            return
    pytest.fail('every ROS domain is held by another test')


@pytest.fixture(autouse=True)
def _own_domain(request: pytest.FixtureRequest) -> None:
    """Give each test marked `ros` its domain."""
    if request.node.get_closest_marker('ros'):
        request.getfixturevalue('ros_domain')
