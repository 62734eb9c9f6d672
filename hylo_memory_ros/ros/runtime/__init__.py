"""Threads of the node: worker pools, the dispatch of service coroutines, and the guard of requests.

Knows futures, requests and error codes, but neither memory nor parameters.
"""
