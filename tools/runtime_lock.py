"""Prints requirements.txt without the packages that only the checks need.

The checks need packages such as pytest, ruff and the type checker.

python tools/runtime_lock.py > dist/requirements.txt
"""

import pathlib
import re

_ROOT = pathlib.Path(__file__).parents[1]  # folder of the repository


def main() -> None:
  """Prints the pinned packages that are needed without the checks.

  The packages after the line '# The checks.' of requirements.in are left out,
  and the packages on which only left-out packages depend.
  """
  checks = (_ROOT / "requirements.in").read_text().split("# The checks.")[1]
  dropped = set(re.findall(r"^([\w-]+)", checks, re.MULTILINE))
  lock = (_ROOT / "requirements.txt").read_text()
  comments, *packages = re.split(r"^(?=[\w-]+==)", lock, flags=re.MULTILINE)
  needed_by = {
    package.split("==")[0]: set(
      re.findall(r"^    # (?: |via) (-r \S+|[\w-]+)$", package, re.MULTILINE)
    )
    for package in packages
  }
  while more := {
    name
    for name, parents in needed_by.items()
    if name not in dropped and parents and parents <= dropped
  }:
    dropped |= more
  kept = [x for x in packages if x.split("==")[0] not in dropped]
  print(comments + "".join(kept), end="")


if __name__ == "__main__":
  main()
