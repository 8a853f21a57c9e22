"""The tests of this folder share `wrong_numbers` and `seeded` with those of mistakes/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "mistakes"))
