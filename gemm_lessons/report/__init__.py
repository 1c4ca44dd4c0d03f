"""What the user sees: the only place that imports rich. It prints records and decides nothing.

- ``console``: where it goes: colours, widths, the pager, progress
- ``course``: the list of lessons, their texts, start, reset, hints, doctor
- ``page``, ``accesses``: pictures of a run, as a web page and in the terminal; ``site``: the course as web pages
- ``run``: the outcome of a run: the table and everything below it
"""
