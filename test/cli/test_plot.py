import sys
from pathlib import Path

import pytest

from .conftest import Run

pytest.importorskip('matplotlib', reason='the extra plot is not installed')

PNG = b'\x89PNG\r\n\x1a\n'


def test_a_picture_is_written(run: Run, file: Path, tmp_path: Path) -> None:
    picture = tmp_path / 'map.png'
    answer = run('plot', file, '-o', picture)
    assert (answer.code, answer.err) == (0, '')
    assert picture.read_bytes().startswith(PNG)


def test_a_circle_and_another_time_are_drawn(run: Run, file: Path, tmp_path: Path) -> None:
    picture = tmp_path / 'map.svg'
    answer = run('plot', file, '-o', picture, '--near', 0, 0, 0, '--radius', 5, '--as-of', 50)
    assert answer.code == 0
    drawn = picture.read_text()
    assert '<svg' in drawn


@pytest.mark.parametrize(
    ('arguments', 'named'),
    [
        (['--label', 'unicorn'], "frame 'map'"),
        (['--frame', 'odom'], "frame 'odom'"),
        (['--map', 'attic'], "frame 'map'"),
    ],
)
def test_nothing_to_draw_is_refused(
    run: Run, file: Path, tmp_path: Path, arguments: list[str], named: str
) -> None:
    answer = run('plot', file, '-o', tmp_path / 'map.png', *arguments)
    assert answer.code == 1
    assert named in answer.err
    assert not (tmp_path / 'map.png').exists()


def test_an_unknown_format_is_refused_by_name(run: Run, file: Path, tmp_path: Path) -> None:
    answer = run('plot', file, '-o', tmp_path / 'map.mug')
    assert answer.code == 1
    assert 'map.mug' in answer.err


def test_a_folder_that_is_not_there_is_named(run: Run, file: Path, tmp_path: Path) -> None:
    answer = run('plot', file, '-o', tmp_path / 'nowhere' / 'map.png')
    assert answer.code == 1
    assert 'nowhere' in answer.err


def test_without_matplotlib_it_says_what_to_install(
    run: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
    answer = run('plot', file, '-o', tmp_path / 'map.png')
    assert answer.code == 1
    assert 'hylo-memory-ros[plot]' in answer.err
