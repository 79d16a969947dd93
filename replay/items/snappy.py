"""Snappy: decompresses the blocks in which Reverb's checkpoints store data.

Reverb's Python package has no call for it, and no library of the lock file has.
The format is https://github.com/google/snappy/blob/main/format_description.txt.
"""


def decompress(block: bytes) -> bytes:
  """Returns the content of one block of Snappy's raw format.

  Raises:
    ValueError: the block is damaged.
  """
  size, at, shift = 0, 0, 0
  found = bytearray()
  try:
    while True:  # the size: seven bits per byte, the lowest first
      size |= (block[at] & 0x7F) << shift
      at, shift = at + 1, shift + 7
      if block[at - 1] < 0x80:
        break
    while at < len(block):
      tag, at = block[at], at + 1
      if tag & 3 == 0:  # literal bytes
        length = (tag >> 2) + 1
        if length > 60:  # the length is in 1 to 4 bytes of its own
          more = length - 60
          length = int.from_bytes(block[at : at + more], "little") + 1
          at += more
        found += block[at : at + length]
        at += length
        continue
      if tag & 3 == 1:  # a copy of earlier bytes: an offset of 11 bits
        length, more = (tag >> 2 & 7) + 4, 1
        offset = (tag >> 5 << 8) | block[at]
      else:
        length, more = (tag >> 2) + 1, 2 if tag & 3 == 2 else 4
        offset = int.from_bytes(block[at : at + more], "little")
      at += more
      start = len(found) - offset
      if start < 0 or not offset:
        raise ValueError("a copy refers to bytes before the block")
      if offset >= length:
        found += found[start : start + length]
      else:  # the copy overlaps itself, and so repeats its bytes
        repeated = found[start:]
        found += (repeated * (length // offset + 1))[:length]
  except IndexError:
    raise ValueError("the block ends early") from None
  if len(found) != size:
    raise ValueError(f"the block has {len(found)} bytes of {size}")
  return bytes(found)
