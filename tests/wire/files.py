"""The first bytes of files, as far as anybody looks at them."""

import struct


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", width, height) + bytes(20)


def wav(length):
    rate = 16_000
    return (
        b"RIFF"
        + bytes(4)
        + b"WAVEfmt "
        + bytes(12)
        + struct.pack("<I", rate)
        + bytes(length * rate - 32)
    )
