"""A driver of Ray for cluster_test.py.

    python -m tests.machines.driver ADDRESS

It has an actor on each of the cluster's hosts start two children: `sleep 1111`,
and `sleep 2222`, which the kernel ends with the actor. Then, for good, it says
the addresses of the hosts that are alive, in a line each time they change.
"""

import ctypes
import signal
import subprocess
import sys
import time

from slipway.launch.machines import admission

_PR_SET_PDEATHSIG = 1


def _tie_to_parent():
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
  said = None
  while True:
    alive = hosts_alive()
    if alive != said:
      print(*alive, flush=True)
      said = alive
    time.sleep(0.1)


if __name__ == "__main__":
  main()
