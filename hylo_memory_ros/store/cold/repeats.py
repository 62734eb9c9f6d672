"""Repetitions of what still holds, which may become cold behind every cut.

Who says again and again that the door is open adds nothing to what is believed, and is kept as evidence.
A timeline is a function of all that was said, so a change at or before the newest repetition that is cold
brings them all back first. Any later one finds what it needs in those that stay:

- the first of its stretch, which speaks for it, and the newest;
- whatever ever spoke for a version, was withdrawn, or says something else since a correction;
- what outdoes something else that was said from the same time;
- the first one in every episode, by which the fact belongs to it.
"""

from __future__ import annotations

__all__ = ['OF_A_CUT']


# Of an episode the fact keeps one that was said before in both times; and between them no version ever began
# or ended, so whatever has the later one in its stretch has that one.
_WITNESSED = """
    EXISTS (
        SELECT 1 FROM (
            SELECT w.valid_from_ns AS at_ns
            FROM assertion AS w INDEXED BY assertion_identity
            JOIN txn AS y ON y.sequence = w.sequence
            WHERE w.identity_id = v.identity_id
            AND w.valid_from_ns BETWEEN v.valid_from_ns AND a.valid_from_ns
            AND w.assertion_id < a.assertion_id AND y.episode = x.episode
            AND w.withdrawn_seq IS NULL AND w.content_digest = a.content_digest
            AND NOT EXISTS (SELECT 1 FROM corrected AS n WHERE n.assertion_id = w.assertion_id)
            ORDER BY w.valid_from_ns DESC LIMIT 1
        ) AS before
        WHERE NOT EXISTS (
            SELECT 1 FROM assertion AS c JOIN version AS b ON b.assertion_id = c.assertion_id
            WHERE c.identity_id = v.identity_id
            AND c.valid_from_ns > before.at_ns AND c.valid_from_ns <= a.valid_from_ns
        ) AND NOT EXISTS (
            SELECT 1 FROM forgetting AS f WHERE f.identity_id = v.identity_id
            AND f.forgotten_at_ns > before.at_ns AND f.forgotten_at_ns <= a.valid_from_ns
        )
    )
"""
OF_A_CUT = f"""
    CROSS JOIN version AS v INDEXED BY version_believed
    ON v.identity_id = cut.identity_id AND v.to_seq IS NULL AND v.valid_from_ns >= cut.before_ns
    JOIN assertion AS s ON s.assertion_id = v.assertion_id
    JOIN assertion AS a INDEXED BY assertion_identity
    ON a.identity_id = v.identity_id AND a.valid_from_ns > v.valid_from_ns
    AND a.valid_from_ns < coalesce(v.valid_to_ns, {2**63 - 1}) AND a.valid_from_ns < :ended
    JOIN txn AS x ON x.sequence = a.sequence
    WHERE a.withdrawn_seq IS NULL AND a.content_digest = s.content_digest AND x.op != 'consolidate'
    AND NOT EXISTS (SELECT 1 FROM version AS b WHERE b.assertion_id = a.assertion_id)
    AND NOT EXISTS (
        SELECT 1 FROM corrected AS n WHERE n.assertion_id IN (a.assertion_id, s.assertion_id)
    )
    AND NOT EXISTS (
        SELECT 1 FROM assertion AS c INDEXED BY assertion_identity
        WHERE c.identity_id = v.identity_id AND c.valid_from_ns = a.valid_from_ns
        AND (c.content_digest != a.content_digest OR EXISTS (
            SELECT 1 FROM corrected AS n WHERE n.assertion_id = c.assertion_id
        ))
    )
    AND EXISTS (
        SELECT 1 FROM assertion AS c INDEXED BY assertion_identity
        WHERE c.identity_id = v.identity_id AND c.valid_from_ns > a.valid_from_ns
        AND c.valid_from_ns < coalesce(v.valid_to_ns, {2**63 - 1})
        AND c.withdrawn_seq IS NULL AND c.content_digest = s.content_digest
    )
    AND (x.episode = '' OR {_WITNESSED})
    AND cut.before_ns < {2**63 - 1}
"""  # noqa: S608 - our own words
"""SQL: what repeats what still holds behind the cuts of `choosing`, as `a`."""
