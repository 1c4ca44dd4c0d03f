"""Print records for the user. Only this package imports rich; it makes no decisions.

- ``console``: colours, widths, the pager, progress, reports as HTML; ``links``: places in files
- ``screen``: a run on one screen: ``figures``, a table, or ``trouble``, with ``elements`` for bytes, in ``blocks``;
  for editors, its problems
- ``run``: everything about a run, with its ``table``
- ``course``, ``practice``: lessons, the next step, differences to a reference; questions and bugs
- ``bench``, ``compare``, ``inspect``, ``proofs``, ``tune``, ``watch``: those commands; ``bench`` has ``profile``, too
- ``view``, ``roles``, ``stalls``, ``page``: pictures of one run; ``plot``: of many runs
- ``grading``: a class in the terminal; ``grades``, ``student``: pages, with their ``bars``
- ``site``: the course as web pages, with ``drawing``, ``chart``, ``site_drills``, ``site_search``, ``site_terms``;
  ``reference``: on the engine; ``site_session``: a recording; ``site_publish``: what search engines and links need
- ``markdown``: lessons' texts in the terminal; ``template``: what all pages are made from
"""
