"""Print records for the user. Only this package imports rich; it makes no decisions.

- ``console``: colours, widths, the pager, progress; ``links``: places in files; ``html``: reports as HTML
- ``screen``: a run on one screen: ``figures``, a table, or ``trouble``, with ``elements`` for bytes, in ``blocks``
- ``run``: everything about a run, with its ``table``; for editors, ``problems``
- ``course``, ``home``, ``practice``, ``diff``: lessons, the next step, questions and bugs, the reference
- ``bench``, ``compare``, ``inspect``, ``profile``, ``proofs``, ``tune``, ``tile_model``, ``watch``: those commands
- ``accesses``, ``roles``, ``tiles``, ``page``: pictures of one run; ``plot``, ``tune_plot``: of many runs
- ``grading``: a class in the terminal; ``grades``, ``student``: pages, with their ``bars``
- ``site``: the course as web pages, with ``drawing``, ``chart``, ``site_drills``, ``site_search``, ``site_terms``;
  ``reference``: on the engine; ``site_session``: a recording; ``site_publish``: what search engines and links need
- ``markdown``: lessons' texts in the terminal; ``template``: what all pages are made from
"""
