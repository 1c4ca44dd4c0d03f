"""Regular expressions that are compiled on first use.

    NAME = regex(r"[A-Za-z_]\\w*")      as re.compile(...), but importing the module compiles nothing

The engine has a hundred. A run uses a third of them, and compiling the others took a fiftieth of a short run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    regex = re.compile
else:

    class regex:
        """Like ``re.compile(text, flags)``; the type checker sees that one."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> Any:
            """Compile, and keep each attribute of the pattern that is asked for."""
            found = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, found)
            return found
