"""Ingestion."""
