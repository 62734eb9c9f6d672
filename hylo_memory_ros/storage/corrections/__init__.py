"""Corrections of maps and their reversals.

A correction is changed belief: the stored coordinates stay and are what a reversal restores. Used through
the repositories of a unit of work.
"""
