"""Launches a program on the machines of a Ray cluster.

Ray places, watches and ends; what nodes say to one another goes straight from
machine to machine.
"""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable

import ml_collections

from slipway.launch.machines import cluster as cluster_lib
from slipway.launch.machines import fleet as fleet_lib
from slipway.launch.machines import placement
from slipway.launch.orchestration import control_service
from slipway.launch.processes import failures, watch
from slipway.launch.processes import signals as signals_lib
from slipway.launch.rpc import client as rpc_client
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder, user_modules

_LOOK_S = 1.0


def prepare(
  config: ml_collections.ConfigDict,
  address: str,
  wait: bool,
  insecure: bool,
  say: Callable[[str], None],
) -> Callable[..., None]:
  """Connects to a cluster that has the machines that a run needs.

  Args:
    config: the whole config, validated.
    address: 'host:port' of Ray's head, from `admission.seek`.
    wait: for machines that are missing, instead of refusing.
    insecure: whether the machines' network is private, and nothing guarded.
    say: tells the user where the dashboard is, and what is waited for.

  Returns:
    `launch` of that cluster.

  Raises:
    ValueError: one line: there is no such cluster, it may not be used, or has
      not the machines.
  """
  _check(config)
  cluster = cluster_lib.Cluster(address, user_modules.find(config))
  if cluster.dashboard:
    say(f"Ray's dashboard: {cluster.dashboard}")
  said = ""
  while missing := _missing(config, cluster):
    if not wait:
      cluster.close()
      raise ValueError(missing)
    if missing != said:
      say(f"waiting: {missing}")
      said = missing
    time.sleep(_LOOK_S)
  return functools.partial(launch, cluster=cluster, secure=not insecure)


def launch(
  run: run_lib.Run,
  signals: signals_lib.Signals,
  cluster: cluster_lib.Cluster,
  secure: bool,
) -> None:
  """Runs a program to its end.

  Args:
    run: what to run.
    signals: that this process takes.
    cluster: from `prepare`.
    secure: whether machines talk mutual TLS.

  Raises:
    RuntimeError: a node failed for good; in one line, after its error was
      printed whole.
    KeyboardInterrupt: Ctrl-C came twice; all nodes have been killed.
  """
  # Agents have folders of their own to be in.
  folder = run_folder.RunFolder(run.folder.path.resolve())
  run = dataclasses.replace(run, folder=folder)
  fleet = fleet_lib.Fleet(run, cluster, secure)
  signals.set_on_again(fleet.kill_at_once)
  with contextlib.ExitStack() as held:
    held.callback(cluster.close)

    def on_control(where: str) -> None:
      control = rpc_client.connect(control_service.ControlService, where)
      watcher = watch.Watch(
        control,
        signals,
        fleet.stop_restarting,
        lambda workers, at_s: _send_placement(control, fleet),
      )
      held.callback(watcher.close)

    try:
      fleet.run(on_control)
    except failures.NodeFailedError as error:
      failures.print_whole(error.failure)
      raise


def _missing(
  config: ml_collections.ConfigDict, cluster: cluster_lib.Cluster
) -> str:
  """What the cluster is short of, in one line; '': nothing."""
  try:
    placement.Placement(config).check(cluster.machines(), cluster.address)
  except ValueError as error:
    return str(error)
  return ""


def _send_placement(
  control: control_service.ControlService, fleet: fleet_lib.Fleet
) -> None:
  """Sends the control node the machines that the run has now."""
  # One that is restarting gets them at the next attempt.
  with contextlib.suppress(rpc_client.UnreachableError):
    control.place(fleet.placement())


def _check(config: ml_collections.ConfigDict) -> None:
  """Raises ValueError, one line, for what can't be on machines."""
  topology = config.topology
  if not topology.proxy:
    raise ValueError(
      "--config.topology.proxy=False leaves each machine's workers without a "
      "way to replay on another machine: leave it out with --launch=ray"
    )
  if topology.trainer_machine == "own" and not config.snapshot.url:
    raise ValueError(
      "--config.topology.trainer_machine=own has the trainer on a machine that "
      "may be lost with all its snapshots: give --config.snapshot.url=..., a "
      "folder that all machines share or an object store"
    )
