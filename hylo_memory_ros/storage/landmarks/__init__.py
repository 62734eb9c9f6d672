"""Repositories of landmarks, sightings, the ledger of observations, and association receipts.

Perception hands over rows and takes them back through a unit of work; nothing here computes with them.
"""
