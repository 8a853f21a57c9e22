"""The tests of this folder share `wrong_numbers`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
