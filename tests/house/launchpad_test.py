"""Launchpad without Courier: its programs run, and Courier raises an error."""

import importlib.metadata
import subprocess
import sys

# A program whose producer sends numbers to a consumer in another thread. A
# process of its own, since Launchpad keeps its launch type and flags globally.
_PROGRAM = """
import queue

import launchpad as lp
from absl import app

NUMBERS = queue.Queue()


class Producer:
  def __init__(self, count):
    self._count = count

  def run(self):
    for number in range(self._count):
      NUMBERS.put(number)


class Consumer:
  def run(self):
    total = sum(NUMBERS.get(timeout=60) for _ in range(10))
    print("total", total, flush=True)
    lp.stop()


def main(_):
  program = lp.Program("numbers")
  with program.group("producer"):
    program.add_node(lp.PyClassNode(Producer, 10))
  with program.group("consumer"):
    program.add_node(lp.PyClassNode(Consumer))
  lp.launch(program, launch_type="local_mt").wait()


app.run(main)
"""


def _run(program: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, "-c", program],
    capture_output=True,
    text=True,
    timeout=100,
    check=False,
  )


def test_a_program_runs_by_launchpads_own_launcher():
  done = _run(_PROGRAM)
  assert done.returncode == 0, done.stderr
  assert "total 45" in done.stdout.splitlines()


def test_the_installed_launchpad_has_no_compiled_part():
  (launchpad,) = importlib.metadata.distributions(name="dm-launchpad-nightly")
  assert launchpad.files is not None
  names = [str(file) for file in launchpad.files]
  assert [name for name in names if name.endswith(".so")] == []
  assert "launchpad/program.py" in names
  assert launchpad.read_text("WHEEL").endswith("Tag: py3-none-any\n")


def test_courier_raises_one_clear_error():
  done = _run("import launchpad as lp; lp.CourierClient('localhost:1')")
  assert done.returncode == 1
  error = done.stderr.splitlines()[-1]
  assert error.startswith("RuntimeError: courier: ")
  assert "use lp.PyNode" in error
