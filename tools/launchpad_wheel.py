"""Makes a wheel of Launchpad's Python modules, without its compiled Courier.

Launchpad's wheels are for CPython 3.10 and one release of TensorFlow, because
of Courier, its library for remote calls. The other modules are pure Python.

python tools/launchpad_wheel.py FOLDER
"""

import base64
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

_TOOLS = pathlib.Path(__file__).resolve().parent

# Marks the wheel as changed: pip counts 1.0+pure as the release 1.0.
_LOCAL_VERSION = "+pure"

_COURIER = '''"""Stands in for Courier: any use raises an error."""


def _reject(name):
  raise RuntimeError(
    f"courier: {name} was used, but this Launchpad has no Courier, which is "
    "compiled for CPython 3.10 only; use lp.PyNode, lp.PyClassNode or "
    "lp.ReverbNode instead of lp.CourierNode"
  )


class Client:
  def __init__(self, *args, **kwargs):
    _reject("Client")


class Server:
  def __init__(self, *args, **kwargs):
    _reject("Server")


def list_methods(client):
  _reject("list_methods")
'''

_PYBIND = '''"""Stands in for Courier's compiled handlers."""

import courier


def __getattr__(name):
  if name.startswith("__"):
    raise AttributeError(name)
  courier._reject(name)
'''

# Files of the stand-in, by path.
_STAND_IN = {
  "courier/__init__.py": _COURIER,
  "courier/handlers/__init__.py": "",
  "courier/handlers/python/__init__.py": "",
  "courier/handlers/python/pybind.py": _PYBIND,
}


def make_wheel(folder: pathlib.Path) -> pathlib.Path:
  """Fetches the wheel that launchpad.txt pins, and writes a pure-Python one.

  Args:
    folder: existing folder of the new wheel.

  Returns:
    The new wheel's path.

  Raises:
    subprocess.CalledProcessError: the published wheel could not be fetched, or
      has another hash; uv's message is on stderr.
  """
  with tempfile.TemporaryDirectory() as published:
    # The published wheel's tags, so that uv takes it whatever runs this.
    subprocess.run(
      [
        *(_TOOLS / "uv.sh", "pip", "install", "-q", "--no-deps"),
        *("--require-hashes", "--only-binary", ":all:", "--target", published),
        *("--python", sys.executable, "--python-version", "3.10"),
        *("--python-platform", "x86_64-manylinux2014"),
        *("-r", _TOOLS / "launchpad.txt"),
      ],
      check=True,
    )
    return _pack(pathlib.Path(published), folder)


def _pack(published: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
  """Writes the wheel of the published wheel's unpacked files."""
  (metadata,) = published.glob("*.dist-info/METADATA")
  release = metadata.parent.name.removesuffix(".dist-info")
  info = f"{release}{_LOCAL_VERSION}.dist-info"
  files = {
    str(path.relative_to(published)): path.read_bytes()
    for path in sorted((published / "launchpad").rglob("*"))
    if path.is_file() and path.suffix not in (".so", ".pyc")
  }
  files |= {name: text.encode() for name, text in _STAND_IN.items()}
  version = f"\nVersion: {release.partition('-')[2]}"
  files[f"{info}/METADATA"] = (
    metadata.read_text().replace(version, version + _LOCAL_VERSION, 1).encode()
  )
  files[f"{info}/LICENSE"] = (metadata.parent / "LICENSE").read_bytes()
  files[f"{info}/WHEEL"] = (
    b"Wheel-Version: 1.0\nGenerator: slipway\n"
    b"Root-Is-Purelib: true\nTag: py3-none-any\n"
  )
  record = [f"{name},{_hash(data)},{len(data)}" for name, data in files.items()]
  record.append(f"{info}/RECORD,,")
  files[f"{info}/RECORD"] = "\n".join([*record, ""]).encode()
  wheel = folder / f"{release}{_LOCAL_VERSION}-py3-none-any.whl"
  with zipfile.ZipFile(wheel, "w") as archive:
    for name, data in files.items():
      # The default time of ZipInfo is fixed: equal files are an equal wheel.
      archive.writestr(zipfile.ZipInfo(name), data)
  return wheel


def _hash(data: bytes) -> str:
  """Returns a file's hash as RECORD has it."""
  digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
  return f"sha256={digest.decode().rstrip('=')}"


if __name__ == "__main__":
  try:
    print(make_wheel(pathlib.Path(sys.argv[1])))
  except subprocess.CalledProcessError as error:
    sys.exit(error.returncode)
