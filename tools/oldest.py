"""The oldest release of a framework that the extra of its adapter allows, as a constraint for pip.

python tools/oldest.py strands > constraints.txt
"""

import re
import sys
import tomllib
from pathlib import Path

extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
for requirement in extras[sys.argv[1]]:
    print(re.sub(r">=([^,]+).*", r"==\1", requirement))
