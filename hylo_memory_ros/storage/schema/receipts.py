"""Receipts of retrievals and associations, and identities registered for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, Table, Text, select, text

from hylo_memory_ros.model import MemoryKind
from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import ERASURE, Purged

__all__ = ['erase_hits', 'receipt', 'registered']

receipt = Table(
    'receipt',
    metadata,
    Column('number', Integer, primary_key=True, comment='in the order of storing'),
    Column('receipt_id', Text, nullable=False, unique=True),
    Column('kind', Text, nullable=False, comment='retrieval, association'),
    Column(
        'made_at_ns', BigInteger, nullable=False, comment='service clock, or stamp of what was decided on'
    ),
    Column('size', Integer, nullable=False, comment='bytes of the body in UTF-8'),
    Column('body', Text, nullable=False, comment='JSON'),
    Column('episode', Text, nullable=False, server_default='', comment='in which it was asked; empty: none'),
    Index('receipt_episode', 'episode', sqlite_where=text("episode != ''")),
    comment='evidence of retrievals and associations; the oldest leave',
)

registered = Table(
    'registered',
    metadata,
    Column('digest', Text, primary_key=True, comment='of the identity; names its layer'),
    Column('receipt_id', Text, primary_key=True),
    Column('body', Text, nullable=False, comment='JSON: the identity'),
    Index('registered_receipt', 'receipt_id'),
    comment='identities of caches and compressed bytes that callers made of an answer',
    sqlite_with_rowid=False,
)


def _erase_receipts(connection: Connection, purged: Purged) -> None:
    """Take purged items out of receipts.

    A retrieval keeps its other hits and counts those that are gone; its query is dropped when it touches a
    purged item. A receipt of an association that names one is deleted, as are the identities of caches and
    compressed bytes that were made of such an answer.
    """
    for row in list(connection.execute(select(receipt.c.receipt_id, receipt.c.kind, receipt.c.body))):
        body = json.loads(row.body)
        this = receipt.c.receipt_id == row.receipt_id
        if row.kind == 'retrieval':
            is_answered = any(_stays(hit, purged.ids) for hit in body['hits'])
            touches = purged.touches_query(body['query'], is_answered=is_answered)
            identifies = bool(purged.identifying_values(body['query'], place=False))
            if not erase_hits(body, purged.ids, identifies=identifies, touches=touches):
                continue
            text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(',', ':'))
            values = {'body': text, 'size': len(text.encode('utf-8'))}
            connection.execute(receipt.update().where(this).values(values))
        elif purged.named_in(body):
            connection.execute(receipt.delete().where(this))
        else:
            continue
        connection.execute(registered.delete().where(registered.c.receipt_id == row.receipt_id))


def erase_hits(body: dict[str, Any], ids: Collection[str], *, identifies: bool, touches: bool) -> bool:
    """Take hits out of a receipt of a retrieval; return whether anything changed.

    Parameters
    ----------
    body : dict
        The receipt, changed in place.
    ids : collection of str
        Ids of the hits.
    identifies : bool
        Whether the query has values that may identify an item: it is then dropped with any hit.
    touches : bool
        Whether the query is dropped in any case.
    """
    hits = [hit for hit in body['hits'] if _stays(hit, ids)]
    gone = len(body['hits']) - len(hits)
    touches = touches or (bool(gone) and identifies)
    if not gone and not touches:
        return False
    body['hits'], body['purged'] = hits, body.get('purged', 0) + gone
    if touches:
        body['query'], body['query_digest'] = None, None
    if gone:
        body['render'] = None
    return True


def _stays(hit: Mapping[str, Any], ids: Collection[str]) -> bool:
    # An item of working memory cannot be found any more, whatever named it.
    return hit['id'] not in ids and hit['kind'] != MemoryKind.WORKING.value


receipt.info[ERASURE] = registered.info[ERASURE] = _erase_receipts
