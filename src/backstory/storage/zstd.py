"""zstd, from the standard library (Python 3.14) or from its backport. Import it where it is used, so that
`import backstory` does not wait for it."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import (
        CompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdDict,
        ZstdError,
        ZstdFile,
    )
else:
    from backports.zstd import (
        CompressionParameter,
        ZstdCompressor,
        ZstdDecompressor,
        ZstdDict,
        ZstdError,
        ZstdFile,
    )

__all__ = [
    "CompressionParameter",
    "ZstdCompressor",
    "ZstdDecompressor",
    "ZstdDict",
    "ZstdError",
    "ZstdFile",
]
