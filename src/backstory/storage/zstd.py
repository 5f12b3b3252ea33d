"""zstd, from the standard library (Python 3.14) or from its backport. Import it where it is used,
so that `import backstory` does not wait for it."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
