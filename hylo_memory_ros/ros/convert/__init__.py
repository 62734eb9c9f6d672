"""Conversion between messages and the model, in both directions, and of errors to codes.

Imports the model and generated messages; knows neither node nor memory. Zero and empty mean "not set".
"""
