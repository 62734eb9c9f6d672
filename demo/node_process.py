"""The memory node as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

__all__ = ['NodeProcess']

_ROOT = Path(__file__).resolve().parents[1]
_PARAMETERS = Path(__file__).with_name('params.yaml')
# The node promises to end within 5 s.
_END_S = 10.0
_LAST_LINES = 25


class NodeProcess:
    """Starts the node with a fresh memory file, and ends it.

    Parameters
    ----------
    database : Path
        The memory file; one that is there is removed.
    log : Path
        Where the node's output goes.
    """

    def __init__(self, database: Path, log: Path) -> None:
        self._database = database
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> NodeProcess:
        """Start the node."""
        for path in self._database.parent.glob(f'{self._database.name}*'):
            path.unlink()
        command = [
            sys.executable, str(_ROOT / 'scripts' / 'memory_node'),
            '--ros-args', '--params-file', str(_PARAMETERS), '-p', f'database_path:={self._database}',
        ]  # fmt: skip
        paths = [str(_ROOT), os.environ.get('PYTHONPATH', '')]
        environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, paths))}
        with self._log.open('wb') as log:
            # In a group of its own: a Ctrl-C at the terminal is for the player, which then ends the node.
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the node: asked first, killed when that does not help."""
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            if error is None:
                raise RuntimeError(f'the node did not end within {_END_S:g} s of SIGINT') from None
        else:
            if code and error is None:
                raise RuntimeError(f'the node ended with exit code {code}')

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def last_lines(self) -> str:
        """Return the end of what the node wrote."""
        if not self._log.exists():
            return ''
        return '\n'.join(self._log.read_text(errors='replace').splitlines()[-_LAST_LINES:])
