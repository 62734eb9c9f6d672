"""Commands that show or replay a receipt, trace an answer to its sources (`chain`), or render a prompt."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.formats import json_line
from hylo_memory_ros.cli.options import (
    AsJson,
    AsOf,
    Center,
    Frame,
    KnownSeq,
    MapId,
    MaxTokens,
    MemoryFile,
    Most,
    Radius,
    build_query,
    open_memory_file,
    with_filters,
)
from hylo_memory_ros.evidence.chain import Chain
from hylo_memory_ros.evidence.receipts import Replay

ReceiptId = Annotated[
    str, typer.Argument(metavar='ID', help='Receipt, as its query or event named it.', show_default=False)
]


def receipt(file: MemoryFile, id: ReceiptId, as_json: AsJson = False) -> None:
    """Print the recorded evidence of a retrieval or an association."""
    with open_memory_file(file) as memory:
        body = memory.receipt(id)
    print(json_line(body) if as_json else json.dumps(body, ensure_ascii=False, indent=2))


def replay_receipt(file: MemoryFile, id: ReceiptId, as_json: AsJson = False) -> None:
    """Repeat the query of a receipt at its state; exit code 1 when other ids come."""
    with open_memory_file(file) as memory:
        replay = memory.replay_receipt(id)
    if as_json:
        print(json_line(replay.as_dict()))
    else:
        _print_replay(replay)
    if not replay.same:
        raise typer.Exit(1)


def _print_replay(replay: Replay) -> None:
    if replay.same:
        print(f'the same: {len(replay.ids)} ids in the same order')
        return
    print(f'not the same: {len(replay.ids)} ids then, {len(replay.found)} now')
    for name in replay.missing:
        print(f'  missing {name}')
    for name in replay.added:
        print(f'  added {name}')
    for reason in replay.reasons:
        print(f'because: {reason}')


def chain(file: MemoryFile, id: ReceiptId, as_json: AsJson = False) -> None:
    """Print the identities behind one answer, from its records to what was made of it."""
    with open_memory_file(file) as memory:
        answer = memory.chain(id)
    if as_json:
        for link in answer.links:
            print(json_line(asdict(link)))
        return
    _print_chain(answer)


_STEPS = {
    'record': 'statements',
    'embedding': 'vectors',
    'generation': 'candidate index',
    'candidates': 'candidates',
    'rerank': 'order',
    'segment': 'prompt',
    'token_kv': 'cache',
    'artifact': 'compressed',
}


def _print_chain(answer: Chain) -> None:
    for step, words in _STEPS.items():
        links = answer.step(step)
        print(f'{words}:' if links else f'{words}: none')
        for link in links:
            print(f'  {link.digest or "(working memory)"}  {link.about}')
    if not answer.complete:
        print('not complete: a purge took hits out of the receipt')


@with_filters('labels', 'keys', 'text')
def render(
    file: MemoryFile,
    near: Center = None,
    radius: Radius = None,
    frame: Frame = 'map',
    map_id: MapId = None,
    as_of: AsOf = None,
    known_seq: KnownSeq = None,
    k: Most = 10,
    max_tokens: MaxTokens = None,
    renderer: Annotated[
        str, typer.Option('--renderer', help='hylo-prelude@1, hylo-jsonl@1 or an entry point.')
    ] = '',
    **filters: Any,
) -> None:
    """Print the memory prelude of a prompt; unchanged memory gives unchanged bytes."""
    query = build_query(near, radius, frame, map_id, as_of_ns=as_of, known_seq=known_seq, k=k, **filters)
    with open_memory_file(file) as memory:
        print(memory.render(query, max_tokens, renderer=renderer).text, end='')
