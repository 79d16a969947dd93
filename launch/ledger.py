"""The ledger: what the nodes have reported, added up to the run's status."""

import collections
import dataclasses
import math
import time
import typing
from collections.abc import Callable, Collection, Mapping

import ml_collections

from launch import rate, waits

# A node that has not reported for so long hangs, or can't reach this one.
_SILENT_AFTER_S = 5.0
# A wait shorter than this is the rate limiter doing its work.
_WAITING_AFTER_S = 3.0
# Two reports of one wait put its beginning at most so far apart.
_SAME_WAIT_S = 1.0

_COUNTS_OF_WORKER = ("items_confirmed", "items_lost", "reconnects")
_SUMS_OF_PROXIES = (
  "connections",
  "connections_refused",
  "bytes_up",
  "bytes_down",
  "variables_fetched",
  "restarts",
)

# Counts that start from 0 with each life of a node's process.
_COUNTS_OF_A_LIFE = (
  "env_steps",
  "items_written",
  "items_confirmed",
  "items_lost",
  "reconnects",
  "bytes_up",
  "bytes_down",
  "variables_fetched",
)


@dataclasses.dataclass
class Node:
  """The newest report of one node."""

  metrics: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
  finished: bool = False
  heard_at_s: float = 0.0  # monotonic
  waiting_since_s: float | None = None  # monotonic
  restarts: int = 0
  _life: float | None = None
  _before: dict[str, int] = dataclasses.field(default_factory=dict)

  def hear(self, metrics: Mapping[str, typing.Any], finished: bool) -> None:
    """Takes a report; what it leaves out stays as it was."""
    life = metrics.get("life")
    if life != self._life:
      if self._life is not None:
        self._begin_again()
      self._life = life
    before = self._before
    self.metrics.update(
      (name, value + before[name] if name in before else value)
      for name, value in metrics.items()
    )
    self.finished = self.finished or finished
    self.heard_at_s = time.monotonic()
    for name in ("waiting_s", "starved_s"):
      if name in metrics:
        self._notice_wait(metrics[name])

  def waited_s(self) -> float:
    """For how long the node has waited; 0.0: it does not."""
    if self.waiting_since_s is None or self.finished:
      return 0.0
    return time.monotonic() - self.waiting_since_s

  def _begin_again(self) -> None:
    """Keeps what a node counted before it died: its successor counts from 0."""
    get = self.metrics.get
    self._before = {name: get(name, 0) for name in _COUNTS_OF_A_LIFE}
    # What was in flight when it died.
    written, confirmed = get("items_written", 0), get("items_confirmed", 0)
    self._before["items_lost"] = written - confirmed
    self.restarts += 1

  def _notice_wait(self, waited_s: float | None) -> None:
    if waited_s is None:
      self.waiting_since_s = None
      return
    since_s, before_s = self.heard_at_s - waited_s, self.waiting_since_s
    # Reports take time to come: the beginning that is shown must not flicker.
    if before_s is None or abs(since_s - before_s) > _SAME_WAIT_S:
      self.waiting_since_s = since_s


class Ledger:
  """Adds the nodes' reports up."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    name: str,
    expected: Mapping[str, int],
    started_at_s: float,
  ):
    """Starts with no reports.

    Args:
      config: the whole config.
      name: of the run.
      expected: how many nodes of each role will report.
      started_at_s: unix seconds of the user's command.
    """
    self._config = config
    self._name = name
    self._expected = dict(expected)
    self._started_at_s = started_at_s
    self._nodes: dict[tuple[str, int], Node] = {}
    self._evaluations: list[dict[str, typing.Any]] = []
    self._rates = collections.defaultdict(rate.Rate)
    self._rates_now = collections.defaultdict(float)

  def report(
    self,
    role: str,
    index: int,
    metrics: Mapping[str, typing.Any],
    finished: bool = False,
  ) -> None:
    """Takes the counts of node `index` of `role`."""
    self._nodes.setdefault((role, index), Node()).hear(metrics, finished)

  def add_evaluation(self, row: dict[str, typing.Any]) -> bool:
    """Takes an evaluation; returns whether it is the best so far."""
    best = self._best_return()
    self._evaluations.append(row)
    return best is None or row["eval_return"] >= best

  def finished(self, role: str, silent_s: float = math.inf) -> bool:
    """Whether all expected nodes of a role have ended.

    Args:
      role: of the nodes.
      silent_s: seconds without a report after which a node counts as ended.
    """
    since_s = time.monotonic() - silent_s
    ended = sum(
      node.finished or node.heard_at_s < since_s for node in self._of(role)
    )
    return ended >= self._expected.get(role, 0)

  def all_up(self) -> bool:
    """Whether every expected node has reported at least once."""
    return all(len(self._of(role)) >= n for role, n in self._expected.items())

  def status(self) -> dict[str, typing.Any]:
    """The run in one flat dictionary; `update_rates` keeps its rates fresh."""
    trainer = self._merged("trainer")
    replay = {**trainer.get("replay", {}), **self._merged("replay")}
    last = self._evaluations[-1] if self._evaluations else {}
    first_step_at_s = trainer.get("first_step_at_s")
    return {
      "name": self._name,
      "wall_s": time.time() - self._started_at_s,
      "start_up_s": (
        first_step_at_s - self._started_at_s if first_step_at_s else None
      ),
      "env_steps": self._sum("worker", "env_steps"),
      "env_steps_per_s": self._rates_now["env_steps"],
      "trainer_steps": trainer.get("trainer_steps", 0),
      "trainer_steps_per_s": self._rates_now["trainer_steps"],
      "items_written": self._sum("worker", "items_written"),
      "items_confirmed": self._sum("worker", "items_confirmed"),
      "items_lost": self._sum("worker", "items_lost"),
      "items_per_s": self._rates_now["items_confirmed"],
      "reconnects": self._sum("worker", "reconnects"),
      "replay_size": replay.get("size", 0),
      "replay_capacity": self._config.replay.capacity,
      "inserted": replay.get("inserted", 0),
      "sampled": replay.get("sampled", 0),
      "samples_per_insert": replay.get("samples_per_insert", 0.0),
      "samples_per_insert_asked": self._config.replay.samples_per_insert,
      "variables_version": trainer.get("variables_version", 0),
      "variables_age_s": self._mean("worker", "variables_age_s"),
      "eval_return": last.get("eval_return"),
      "eval_episodes": last.get("eval_episodes", 0),
      "best_eval_return": self._best_return(),
      "evaluations": len(self._evaluations),
      "training_return": self._mean("worker", "training_return"),
      "limits": self._config.limits.to_dict(),
      "nodes": {
        role: [sum(not node.finished for node in self._of(role)), count]
        for role, count in self._expected.items()
        if count
      },
      "restarts": sum(node.restarts for node in self._nodes.values()),
      "node_restarts": {
        f"{role}/{index}": node.restarts
        for (role, index), node in sorted(self._nodes.items())
        if node.restarts
      },
      "waiting": self.waiting(),
      "metrics": trainer.get("metrics", {}),
      "proxy": self._proxy(),
      "workers": self._workers(),
    }

  def silent(self) -> list[str]:
    """Nodes that were up, have not ended, and report no more: 'worker 1'."""
    since_s = time.monotonic() - _SILENT_AFTER_S
    return [
      f"{role} {index}"
      for (role, index), node in sorted(self._nodes.items())
      if not node.finished and node.heard_at_s < since_s
    ]

  def update_rates(self) -> None:
    """Measures the rates; called regularly by one owner."""
    now_s = time.monotonic()
    counts = {
      "env_steps": self._sum("worker", "env_steps"),
      "trainer_steps": self._merged("trainer").get("trainer_steps", 0),
      "items_confirmed": self._sum("worker", "items_confirmed"),
      "proxy_bytes_up": self._sum("proxy", "bytes_up"),
    }
    for name, count in counts.items():
      self._rates_now[name] = self._rates[name].add(count, now_s)

  def _of(self, role: str) -> list[Node]:
    return [node for (of, _), node in self._nodes.items() if of == role]

  def _merged(self, role: str) -> dict[str, typing.Any]:
    merged: dict[str, typing.Any] = {}
    for node in self._of(role):
      merged.update(node.metrics)
    return merged

  def _values(self, role: str, metric: str) -> list[float]:
    values = [node.metrics.get(metric) for node in self._of(role)]
    return [value for value in values if value is not None]

  def _sum(self, role: str, metric: str) -> int:
    return int(sum(self._values(role, metric)))

  def _mean(self, role: str, metric: str) -> float | None:
    values = self._values(role, metric)
    return sum(values) / len(values) if values else None

  def _proxy(self) -> dict[str, typing.Any]:
    """All proxies together; of the variables, those that lag most."""
    if not self._expected.get("proxy"):
      return {}
    versions = self._values("proxy", "variables_version")
    ages_s = self._values("proxy", "variables_age_s")
    return {
      **{name: self._sum("proxy", name) for name in _SUMS_OF_PROXIES},
      "bytes_up_per_s": self._rates_now["proxy_bytes_up"],
      "variables_version": min(versions, default=None),
      "variables_age_s": max(ages_s, default=None),
    }

  def _workers(self) -> dict[str, dict[str, typing.Any]]:
    """What is known of each worker, by itself and by its proxy."""
    workers: dict[str, dict[str, typing.Any]] = {}
    for (role, index), node in sorted(self._nodes.items()):
      if role == "worker":
        workers[str(index)] = {
          name: node.metrics[name]
          for name in _COUNTS_OF_WORKER
          if name in node.metrics
        }
    for node in self._of("proxy"):
      for index, streams in node.metrics.get("workers", {}).items():
        workers.setdefault(index, {}).update(streams)
    return workers

  def _best_return(self) -> float | None:
    return max((row["eval_return"] for row in self._evaluations), default=None)

  def waiting(self, but: Collection[str] = ()) -> str | None:
    """Who waits; of roles that wait on each other, the first is the cause.

    Args:
      but: reasons that are left out.

    Returns:
      A sentence of `waits.say`; None: nobody waits.
    """
    reasons: dict[str, Callable[[Node], str | None]] = {
      "worker": lambda node: node.metrics.get("waiting_for"),
      "proxy": lambda node: waits.server(node.metrics["server"]),
      "trainer": lambda node: waits.TRANSITIONS,
    }
    for role, reason_of in reasons.items():
      blocked = [
        waits.Wait(reason, node.waited_s())
        for node in self._of(role)
        if node.waited_s() > _WAITING_AFTER_S
        and (reason := reason_of(node))
        and reason not in but
      ]
      if blocked:
        return waits.say(role, self._expected[role], blocked, time.time())
    return None
