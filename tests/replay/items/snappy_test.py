"""Tests of the decompression of Snappy's blocks, written by its format."""

import pytest

from slipway.replay.items import snappy


@pytest.mark.parametrize(
  ("block", "content"),
  [
    (b"\x00", b""),
    (b"\x05" + b"\x10" + b"hello", b"hello"),
    # A literal whose length is in a byte of its own, and a size of two bytes.
    (b"\x90\x03" + b"\xf4\x8f\x01" + bytes(400), bytes(400)),
    # A copy of 4 bytes from 4 bytes before, by an offset of 11 bits.
    (b"\x08" + b"\x0c" + b"abcd" + b"\x01\x04", b"abcdabcd"),
    # A copy that overlaps itself, by an offset of 2 and of 4 bytes.
    (b"\x09" + b"\x04" + b"ab" + b"\x1a\x02\x00", b"ababababa"),
    (b"\x09" + b"\x04" + b"ab" + b"\x1b\x02\x00\x00\x00", b"ababababa"),
  ],
)
def test_a_block_is_decompressed(block, content):
  assert snappy.decompress(block) == content


@pytest.mark.parametrize(
  "block",
  [
    b"",
    b"\x80",
    b"\x06" + b"\x10" + b"hello",
    b"\x05" + b"\x10" + b"hell",
    b"\x08" + b"\x0c" + b"abcd" + b"\x01\x05",
    b"\x08" + b"\x0c" + b"abcd" + b"\x01",
  ],
)
def test_a_damaged_block_is_rejected(block):
  with pytest.raises(ValueError, match="block"):
    snappy.decompress(block)
