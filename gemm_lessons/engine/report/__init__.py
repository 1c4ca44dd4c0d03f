"""Sentences of findings, made from their data; nothing else of the kit is imported.

- ``templates.toml``: every sentence of a finding, to be read and edited from top to bottom
- ``sentences``: fills them in
"""
