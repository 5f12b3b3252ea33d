"""The oldest releases of the frameworks that the extras of the adapters allow, as constraints for pip.

python tools/oldest.py > oldest.txt
"""

import re
import tomllib
from pathlib import Path

extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
[chosen] = extras["adapters"]
for extra in re.findall(r"\w+", chosen.partition("[")[2]):
    for requirement in extras[extra]:
        print(re.sub(r">=([^,]+).*", r"==\1", requirement))
