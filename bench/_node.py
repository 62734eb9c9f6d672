"""The node as its own process, and a client that asks it over DDS and spins by itself."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.srv import Query

__all__ = ['NODE', 'QUERY', 'Client', 'MemoryProcess', 'domain', 'near', 'process']

ROOT = Path(__file__).resolve().parents[1]
NODE = '/hylo_memory'
QUERY = f'{NODE}/query'
SETTLE_S = 0.5
RETRY = {ErrorCode.LOADING, ErrorCode.NOT_ACTIVE}


@contextlib.contextmanager
def domain() -> Iterator[None]:
    """Have what is started meanwhile talk in a DDS domain that nothing else on this machine is in."""
    folder = Path(tempfile.gettempdir()) / 'hylo_memory_ros_domains'
    folder.mkdir(mode=0o777, exist_ok=True)
    first = os.getpid() * 7
    before = dict(os.environ)
    for number in ((first + step) % 101 + 1 for step in range(101)):
        with (folder / str(number)).open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            os.environ |= {'ROS_DOMAIN_ID': str(number), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
            try:
                yield
            finally:
                os.environ.clear()
                os.environ.update(before)
            return
    raise RuntimeError('every ROS domain is held by another bench or test')


@contextlib.contextmanager
def process(*command: str, log: Path) -> Iterator[psutil.Popen]:
    """Run a Python process beside this one; it gets SIGINT at the end."""
    with log.open('w') as output:
        started = psutil.Popen(
            [sys.executable, *command], cwd=ROOT, env={**os.environ, 'PYTHONPATH': str(ROOT)},
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield started
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGINT)
            try:
                started.wait(timeout=20)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


class Client:
    """A node in this process that calls services; use with `with`."""

    def __init__(self, name: str = 'bench') -> None:
        self._context = Context()
        self._context.init(domain_id=int(os.environ['ROS_DOMAIN_ID']))
        self.node = Node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(timeout_sec=0)
        self.node.destroy_node()
        self._context.try_shutdown()

    def spin_until(self, condition: Callable[[], Any], timeout_s: float, what: str) -> None:
        """Spin until something is so."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f'no {what} within {timeout_s:g} s')
            self._executor.spin_once(timeout_sec=0.1)

    def spin_for(self, seconds: float) -> None:
        """Spin for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def ready(self, kind: Any, name: str) -> Any:
        """Return the client of a service that has been found, and has found it."""
        if name not in self._clients:
            client = self._clients[name] = self.node.create_client(kind, name)
            self.spin_until(client.service_is_ready, 30.0, name)
            # The server may know the client only later, and until then its replies go nowhere.
            self.spin_for(SETTLE_S)
        return self._clients[name]

    def hear(self, kind: Any, topic: str, profile: Any) -> list[Any]:
        """Subscribe; the result always ends with the newest message."""
        heard: list[Any] = []
        self.node.create_subscription(
            kind, topic, lambda msg: heard.__setitem__(slice(-1, None), [msg]), profile
        )
        return heard

    def call(self, kind: Any, name: str, request: Any, timeout_s: float = 30.0) -> Any:
        """Call a service and return its response."""
        future = self.ready(kind, name).call_async(request)
        # Only the answer can wake this executor, so nothing is gained by looking in between.
        self.spin_until(future.done, timeout_s, f'answer of {name}')
        return future.result()


class MemoryProcess:
    """The memory node, started by the script that users start, and a client of it; use with `with`."""

    def __init__(self, database: Path, parameters: Mapping[str, Any]) -> None:
        self._database, self._parameters = database, parameters
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> MemoryProcess:
        folder = self._database.parent
        values = {'database_path': str(self._database), **self._parameters}
        file = folder / 'node.yaml'
        file.write_text(yaml.safe_dump({'/**': {'ros__parameters': values}}))
        script = str(ROOT / 'scripts' / 'memory_node')
        self.log = folder / 'node.log'
        with self._stack:
            self.process = self._stack.enter_context(
                process(script, '--ros-args', '--params-file', str(file), log=self.log)
            )
            self.client = self._stack.enter_context(Client())
            self.client.ready(ChangeState, f'{NODE}/change_state')
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            print(f'the node wrote:\n{self.log.read_text()}', file=sys.stderr)
        self._stack.close()

    def transition(self, name: str, timeout_s: float = 30.0) -> None:
        """Go through a transition, such as ``configure``."""
        number = getattr(Transition, f'TRANSITION_{name.upper()}')
        request = ChangeState.Request(transition=Transition(id=number))
        if not self.client.call(ChangeState, f'{NODE}/change_state', request, timeout_s).success:
            raise RuntimeError(f'{name} failed')

    def state(self) -> int:
        """Return the lifecycle state."""
        return int(self.client.call(GetState, f'{NODE}/get_state', GetState.Request()).current_state.id)

    def resident_bytes(self) -> tuple[int, int]:
        """Return how much memory the process holds, and the most that it held."""
        status = Path(f'/proc/{self.process.pid}/status').read_text()
        held = dict(line.split(':', 1) for line in status.splitlines())
        resident, peak = (int(held[name].split()[0]) * 1024 for name in ('VmRSS', 'VmHWM'))
        return resident, peak

    def query(self, request: Any) -> Any:
        """Ask the memory."""
        return self.client.call(Query, QUERY, request)

    def loaded(self, timeout_s: float = 120.0) -> None:
        """Wait until it answers questions with a place."""
        deadline = time.monotonic() + timeout_s
        while (code := self.query(near(0.0, 0.0, 0.0, k=0)).error_code) in RETRY:
            if time.monotonic() > deadline:
                raise TimeoutError(f'still {code} after {timeout_s:g} s')
            time.sleep(0.02)

    def started(self) -> None:
        """Configure, activate, and wait until the mirror is loaded."""
        self.transition('configure', 120.0)
        self.transition('activate')
        assert self.state() == State.PRIMARY_STATE_ACTIVE
        self.loaded()


def near(x: float, y: float, radius_m: float, k: int = 10, map_id: str = 'park') -> Any:
    """Return the question what is around a place of the map."""
    asked = MemoryFilter(radius_m=radius_m, map_id=map_id)
    asked.near.header.frame_id = 'map'
    asked.near.point.x, asked.near.point.y = x, y
    return Query.Request(filter=asked, k=k)
