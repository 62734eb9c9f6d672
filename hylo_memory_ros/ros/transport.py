"""Transport of the node's process: UDP alone, unless asked otherwise.

A client on the same machine that is killed amid a write into the shared memory of Fast DDS can leave it
locked; then no new client gets an answer until the node is restarted. Over UDP a killed client harms nobody.
Large messages, depth images above all, cost more over UDP: the variable `TRANSPORT` goes back.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

TRANSPORT = 'HYLO_MEMORY_TRANSPORT'
"""Environment variable: ``udp`` (default) or ``shared_memory`` (what the middleware does by itself)."""
# What a user configures by hand stays so.
CONFIGURED = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE', 'FASTDDS_BUILTIN_TRANSPORTS')
# Within the range LOCALHOST the middleware adds shared memory whatever the variable of Fast DDS says; a
# profile of the loopback interface alone reaches as far.
LOOPBACK = Path(__file__).with_name('loopback.xml')


def choose_transport(environment: MutableMapping[str, str]) -> None:
    """Set the variables that the middleware reads when it is loaded.

    Parameters
    ----------
    environment : mapping of str to str
        Variables of the process, changed in place.

    Raises
    ------
    ValueError
        If the variable `TRANSPORT` has another value.
    """
    chosen = environment.get(TRANSPORT, 'udp')
    if chosen not in ('udp', 'shared_memory'):
        raise ValueError(f"{TRANSPORT}: expected 'udp' or 'shared_memory', got {chosen!r}")
    middleware = environment.get('RMW_IMPLEMENTATION') or 'rmw_fastrtps_cpp'
    if chosen != 'udp' or not middleware.startswith('rmw_fastrtps') or any(map(environment.get, CONFIGURED)):
        return
    reach = environment.get('ROS_AUTOMATIC_DISCOVERY_RANGE', '').upper()
    if environment.get('ROS_LOCALHOST_ONLY') != '1' and reach != 'LOCALHOST':
        environment['FASTDDS_BUILTIN_TRANSPORTS'] = 'UDPv4'
    elif not environment.get('ROS_STATIC_PEERS'):
        environment.pop('ROS_LOCALHOST_ONLY', None)
        environment['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'SYSTEM_DEFAULT'
        environment['FASTRTPS_DEFAULT_PROFILES_FILE'] = str(LOOPBACK)
