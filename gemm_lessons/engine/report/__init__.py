"""Findings in words. Data comes in, a sentence goes out; nothing else of the kit is imported.

- ``templates``: every sentence that a finding can be, to be read and edited from top to bottom
- ``sentences``: fills them in
"""
