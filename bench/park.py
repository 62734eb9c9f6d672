"""The recorded drive through Victoria Park, scored against the trees that really stand there."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._figure import at_least, at_most

ROOT = Path(__file__).resolve().parents[1]


def park() -> Iterator[dict[str, Any]]:
    """The demonstration: how well its landmarks are trees, how many there are, how long it takes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, '-m', 'demo', '--out', folder]
        # It fails when its own aims are missed; the figures say by how much.
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    last = (done.stdout.splitlines() or [''])[-1]
    if not last.startswith('{'):
        raise RuntimeError(f'the demonstration ended with {done.returncode} and without its last line')
    told = json.loads(last)
    more = {name: told[name] for name in ('seconds', 'detections', 'confirmed', 'complete', 'snapshot')}
    yield at_least('park_pairwise_f1', told['pairwise_f1'], 0.997, **more)
    yield at_least('park_landmarks_at_least', told['landmarks'], 143)
    yield at_most('park_landmarks_at_most', told['landmarks'], 152)


FIGURES = {'park': park}
