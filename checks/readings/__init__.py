"""Numbers that were read elsewhere (on a GPU, from NVIDIA's headers), room by room, and the programs that renew them.

The tests of a room compare with them; CONTRIBUTING.md, "Renew readings", has the commands.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
