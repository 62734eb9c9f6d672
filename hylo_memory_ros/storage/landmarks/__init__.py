"""Repositories of landmarks, sightings, the ledger of observations, and association receipts.

`records` has the rows that perception hands over and takes back; nothing here computes with them.
"""
