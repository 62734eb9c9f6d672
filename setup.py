"""For tools that still call setup.py; pyproject.toml says everything."""

from setuptools import setup

setup()
