"""A node as its own process, and somebody who talks to it over DDS."""

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

import yaml
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

from hylo_memory_ros.msg import MemoryFilter, MemoryItem
from hylo_memory_ros.srv import Query, Write

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / 'scripts' / 'memory_node'
NODE = '/hylo_memory'
DOMAINS = range(1, 102)
# How long a condition is waited for: only a failure waits so long, and a busy machine fails nothing.
PATIENCE_S = 90.0


@contextlib.contextmanager
def held_domain() -> Iterator[int]:
    """Hold a DDS domain that no other test on this machine has."""
    folder = Path(tempfile.gettempdir()) / 'hylo_memory_ros_domains'
    folder.mkdir(mode=0o777, exist_ok=True)
    first = (os.getpid() * 7) % len(DOMAINS)
    for domain in (*DOMAINS[first:], *DOMAINS[:first]):
        with (folder / str(domain)).open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    raise RuntimeError('every ROS domain is held by another test')


class NodeProcess:
    """The node, started by the script that users start; use with `with`."""

    def __init__(
        self,
        folder: Path,
        domain: int,
        parameters: Mapping[str, Any] | None = None,
        *,
        yaml_text: str | None = None,
        name: str = 'node',
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.database = folder / 'memory.db'
        values = {'database_path': str(self.database), **(parameters or {})}
        text = yaml_text or yaml.safe_dump({'/**': {'ros__parameters': values}}, allow_unicode=True)
        self.file = folder / f'{name}.yaml'
        self.file.write_text(text)
        self.log_file = folder / f'{name}.log'
        with self.log_file.open('w') as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), '--ros-args', '--params-file', str(self.file), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    'ROS_DOMAIN_ID': str(domain),
                    'ROS_LOG_DIR': str(folder),
                    'PYTHONUNBUFFERED': '1',
                    **(environment or {}),
                },
            )

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ended(self, number: int = signal.SIGINT, within_s: float = 5.0) -> int:
        """Send a signal; return the exit code, which must come in time."""
        self.process.send_signal(number)
        return self.exit_code(within_s)

    def exit_code(self, within_s: float = 5.0) -> int:
        """Wait for the exit code, apart from the time in which its threads waited for a processor."""
        deadline = time.monotonic() + within_s
        waited = self._waited_s()
        while (code := self.process.poll()) is None:
            before, waited = waited, self._waited_s()
            deadline += sum(waited[thread] - before.get(thread, waited[thread]) for thread in waited)
            assert time.monotonic() < deadline, f'runs on after {within_s} s'
            time.sleep(0.02)
        return code

    def _waited_s(self) -> dict[str, float]:
        """Return how long each of its threads was ready to run and did not, seconds."""
        waited = {}
        for thread in Path(f'/proc/{self.process.pid}/task').glob('*/schedstat'):
            with contextlib.suppress(OSError):  # it has ended since
                waited[thread.parent.name] = int(thread.read_text().split()[1]) / 1e9
        return waited

    def wait_for_log(self, text: str) -> None:
        wait_until(lambda: text in self.log or not self.alive, f'{text!r} in the log')
        assert text in self.log, self.log


def wait_until(condition: Callable[[], Any], what: str = 'condition') -> Any:
    """Wait for a condition without spinning; return what made it true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f'no {what} within {PATIENCE_S} s'
        time.sleep(0.02)
    return value


class Talker:
    """A client of the node, in the test's own process; use with `with`."""

    def __init__(self, domain: int, name: str = 'talker', sim_time: bool = False) -> None:
        self.context = Context()
        self.context.init(domain_id=domain)
        overrides = [Parameter('use_sim_time', value=True)] if sim_time else []
        self.node = Node(name, context=self.context, parameter_overrides=overrides)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> Talker:
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.shutdown(timeout_sec=0)
        self.node.destroy_node()
        self.context.try_shutdown()

    def spin_until(self, condition: Callable[[], Any], what: str = 'condition') -> Any:
        """Spin until something is true; return what made it so."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            assert time.monotonic() < deadline, f'no {what} within {PATIENCE_S} s'
            self.executor.spin_once(timeout_sec=0.05)
        return value

    def spin_for(self, seconds: float) -> None:
        """Let messages come in for a while."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.executor.spin_once(timeout_sec=0.02)

    def client(self, kind: Any, name: str) -> Any:
        client = self._clients.setdefault(name, None) or self.node.create_client(kind, name)
        self._clients[name] = client
        self.spin_until(client.service_is_ready, f'service {name}')
        return client

    def call_until_answered(self, client: Any, request: Any) -> None:
        """Repeat a harmless request until a reply comes: none reaches a client that is not matched yet."""
        asked: list[Any] = []

        def answered() -> bool:
            if len(asked) == 0 or time.monotonic() > asked[-1][0] + 1.0:
                asked.append((time.monotonic(), client.call_async(request)))
            return any(future.done() for _, future in asked)

        self.spin_until(client.service_is_ready, 'service')
        self.spin_until(answered, 'answer')

    def call(self, srv: Any, name: str, request: Any = None, /, **fields: Any) -> Any:
        """Call a service of the node (`query`) or any other (`/node/name`), and return its response."""
        client = self.client(srv, name if name.startswith('/') else f'{NODE}/{name}')
        future = client.call_async(request if request is not None else srv.Request(**fields))
        self.spin_until(future.done, f'answer of {name}')
        return future.result()

    def client_is_ready(self, name: str) -> bool:
        """Whether a service of the node answers; for one that was called before."""
        return bool(self._clients[f'{NODE}/{name}'].service_is_ready())

    def change_state(self, transition: int, node: str = NODE) -> bool:
        request = ChangeState.Request(transition=Transition(id=transition))
        return bool(self.call(ChangeState, f'{node}/change_state', request).success)

    def state(self, node: str = NODE) -> int:
        return int(self.call(GetState, f'{node}/get_state').current_state.id)

    def activate(self) -> None:
        """Configure and activate the node, and wait until its mirror is loaded."""
        assert self.change_state(Transition.TRANSITION_CONFIGURE)
        assert self.change_state(Transition.TRANSITION_ACTIVATE)
        self.wait_active()

    def wait_active(self) -> None:
        self.spin_until(lambda: self.state() == State.PRIMARY_STATE_ACTIVE, 'active node')
        near = MemoryFilter()
        near.near.header.frame_id = 'map'
        self.spin_until(
            lambda: self.call(Query, 'query', filter=near, k=0).error_code not in (400, 401),
            'loaded mirror',
        )

    def write(self, *items: MemoryItem, **fields: Any) -> Any:
        return self.call(Write, 'write', items=list(items), **fields)

    def query(self, k: int = 10, filter: MemoryFilter | None = None, **fields: Any) -> Any:
        return self.call(Query, 'query', filter=filter or MemoryFilter(), k=k, **fields)


def spatial(
    key: str = '', x: float = 0.0, y: float = 0.0, z: float = 0.0, frame: str = 'map', **fields: Any
) -> Any:
    """Return a SPATIAL item."""
    msg = MemoryItem(kind=MemoryItem.SPATIAL, key=key, **fields)
    msg.header.frame_id = frame
    msg.pose.position.x, msg.pose.position.y, msg.pose.position.z = float(x), float(y), float(z)
    return msg


def near(frame: str, radius_m: float, x: float = 0.0, y: float = 0.0, **fields: Any) -> MemoryFilter:
    """Return a filter for what is near a point."""
    msg = MemoryFilter(radius_m=radius_m, **fields)
    msg.near.header.frame_id = frame
    msg.near.point.x, msg.near.point.y = float(x), float(y)
    return msg
