"""A DDS domain of its own, so that no other node on this machine hears or disturbs the replay."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ['own_domain']

# Those whose ports lie below Linux's ephemeral ones.
_DOMAINS = range(1, 102)


@contextmanager
def own_domain() -> Iterator[int]:
    """Hold a domain that nobody holds who asks here, and put it into the environment.

    Raises
    ------
    RuntimeError
        Every domain is held.
    """
    folder = Path(tempfile.gettempdir()) / 'hylo_memory_ros_domains'
    folder.mkdir(mode=0o777, exist_ok=True)
    first = os.getpid() % len(_DOMAINS)
    for domain in (*_DOMAINS[first:], *_DOMAINS[:first]):
        with (folder / str(domain)).open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            os.environ['ROS_DOMAIN_ID'] = str(domain)
            os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
            yield domain
            return
    raise RuntimeError('every ROS domain of this machine is held by another run')
