"""Files of ``init`` for editors and git, so that editors understand ``.cu`` files without a CUDA toolkit.

- ``setup``: writes the files and makes the git repository
- ``clangd``: compile commands; ``vscode``: settings and tasks; ``testing_view``: lessons as tests
"""
