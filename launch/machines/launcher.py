"""Launcher of --launch=ray: executes a run on the machines of a Ray cluster.

Ray starts and monitors host agents. Nodes communicate directly from machine to
machine, without Ray.
"""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable

import ml_collections

from slipway.launch.machines import admission, cluster_supervisor, placement
from slipway.launch.machines import cluster as cluster_lib
from slipway.launch.processes import controller as controller_lib
from slipway.launch.processes import processors, tmpfs_directory
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder, user_modules

_POLL_S = 1.0  # seconds between two checks whether machines are missing


def prepare(
  config: ml_collections.ConfigDict,
  address: str,
  wait: bool,
  show: Callable[[str], None],
) -> Callable[..., None]:
  """Connects to a cluster, and checks that it has enough machines.

  Args:
    address: 'host:port' of Ray's head, from `admission.authenticate`.
    wait: whether to wait for missing machines, instead of raising an error.
    show: function that shows a line to the user.

  Returns:
    A function that takes a run and its signals, and executes the run on the
    cluster: `launch` with its last two arguments set.

  Raises:
    ValueError: the cluster cannot be used, or has too few machines.
  """
  _check_topology(config)
  cluster = cluster_lib.Cluster(address, user_modules.find_files(config))
  if cluster.dashboard:
    show(f"Ray's dashboard: {cluster.dashboard}")
  placed, shown = placement.Placement(config), ""
  while missing := placed.find_missing(cluster.machines(), cluster.address):
    if not wait:
      cluster.close()
      raise ValueError(missing)
    if missing != shown:
      show(f"waiting: {missing}")
      shown = missing
    time.sleep(_POLL_S)
  secure = admission.find_identity() is not None
  return functools.partial(launch, cluster=cluster, secure=secure)


def launch(
  run: run_lib.Run,
  signals: signals_lib.Signals,
  cluster: cluster_lib.Cluster,
  secure: bool,
) -> None:
  """Executes a run to its end, with one host agent per machine.

  Args:
    secure: whether machines communicate over mutual TLS.

  Raises:
    RuntimeError: a node failed more often than its restart budget
      allows; its traceback has been printed.
    KeyboardInterrupt: Ctrl-C was pressed twice; all nodes have been killed.
  """
  # Agents have other working directories, so the path must be absolute.
  folder = run_folder.RunFolder(run.folder.path.resolve())
  run = dataclasses.replace(run, folder=folder)
  supervisor = cluster_supervisor.ClusterSupervisor(run, cluster, secure)
  with contextlib.ExitStack() as held:
    held.callback(cluster.close)
    memory_dir = held.enter_context(tmpfs_directory.create())

    controller_lib.execute(run, memory_dir, signals, supervisor.begin)


def _check_topology(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError if a config's topology cannot run on a cluster."""
  topology = config.topology
  if not topology.proxy:
    raise ValueError(
      "--config.topology.proxy=False leaves each machine's workers without a "
      "way to replay on another machine: leave it out with --launch=ray"
    )
  device, gpus = config.learner.device, topology.trainer_gpus
  if device.startswith("gpu") and processors.gpu_index(device) >= gpus:
    raise ValueError(
      f"--config.learner.device={device} is not among the "
      f"--config.topology.trainer_gpus={gpus:g} GPUs that Ray shows to the "
      "trainer: reserve more, or give a smaller index"
    )
  if device == "cpu" and gpus:
    raise ValueError(
      f"--config.topology.trainer_gpus={gpus:g} reserves GPUs that a trainer "
      "with --config.learner.device=cpu does not use: leave one of them out"
    )
  if topology.trainer_machine == "own" and not config.snapshot.url:
    raise ValueError(
      "--config.topology.trainer_machine=own puts the trainer on a machine "
      "that may be lost with all its snapshots: give --config.snapshot.url="
      "..., a folder that all machines share or an object store"
    )
