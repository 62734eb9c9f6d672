"""Repositories of landmarks, sightings, the ledger of observations, and receipts."""
