"""Ingestion of observations: decoding, validation, order and sensor poses.

`ingestion_pipeline` is the whole, from an admitted message to updated landmarks; `observation` has the
records that the rest of perception takes.
"""
