"""Numbers that were read elsewhere (on a GPU, from NVIDIA's headers), and the programs that renew them.

Each subfolder belongs to the tests of the folder of ``checks`` with the same name. CONTRIBUTING.md, "Renew readings",
has the commands.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
