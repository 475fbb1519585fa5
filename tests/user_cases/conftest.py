"""Makes the modules of this folder importable; pytest's importlib mode adds no test folder to the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
