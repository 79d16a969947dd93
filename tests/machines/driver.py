"""A driver of Ray for cluster_test.py.

    python -m tests.machines.driver ADDRESS

The driver starts an actor on each of the cluster's hosts. Each actor starts two
children: `sleep 1111`, and `sleep 2222`, which the kernel ends with the actor.
Then the driver prints a line with the addresses of the live hosts whenever they
change. It never ends by itself.
"""

import ctypes
import signal
import subprocess
import sys
import time

from slipway.launch.machines import admission

_PR_SET_PDEATHSIG = 1


def _tie_to_parent():
  """Makes the kernel kill this process when its parent ends."""
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Parent:
  """An actor with children."""

  def __init__(self):
    subprocess.Popen(["sleep", "1111"])
    subprocess.Popen(["sleep", "2222"], preexec_fn=_tie_to_parent)

  def is_up(self) -> bool:
    return True


def main():
  address = admission.authenticate(sys.argv[1], insecure=False)
  import ray  # reads its environment

  ray.init(address=address, log_to_driver=False)

  def hosts_alive() -> list[str]:
    return sorted(n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"])

  parents = [
    ray.remote(Parent)
    .options(num_cpus=0, resources={f"node:{address}": 0.001})
    .remote()
    for address in hosts_alive()
  ]
  ray.get([parent.is_up.remote() for parent in parents])
  printed = None
  while True:
    alive = hosts_alive()
    if alive != printed:
      print(*alive, flush=True)
      printed = alive
    time.sleep(0.1)


if __name__ == "__main__":
  main()
