"""Files of ``init`` for editors and git, so that editors understand ``.cu`` files without a CUDA toolkit.

- ``setup``: writes the files and makes the git repository; ``testing_view``: lessons as tests
"""

from typing import TYPE_CHECKING

from gemm_lessons.engine.records import on_first_use

if TYPE_CHECKING:
    from gemm_lessons.editor.setup import make_repository, write_editor_files
else:
    __getattr__ = on_first_use(__name__)
