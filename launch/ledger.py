"""The ledger: what the nodes have reported, added up to the run's status."""

import collections
import dataclasses
import math
import time
import typing
from collections.abc import Mapping

import ml_collections

_RATE_WINDOW_S = 5.0
# A wait shorter than this is the rate limiter doing its work.
_WAITING_AFTER_S = 3.0


@dataclasses.dataclass
class Node:
  """The newest report of one node."""

  metrics: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
  finished: bool = False
  heard_at_s: float = 0.0  # monotonic


class Rate:
  """How fast a count grows, over the last seconds."""

  def __init__(self):
    """Starts with no samples."""
    self._samples: collections.deque[tuple[float, float]] = collections.deque()

  def add(self, count: float, now_s: float) -> float:
    """Takes the count now; returns its growth in 1/s over the window."""
    self._samples.append((now_s, count))
    while now_s - self._samples[0][0] > _RATE_WINDOW_S:
      self._samples.popleft()
    (then_s, before), (now_s, now) = self._samples[0], self._samples[-1]
    return (now - before) / (now_s - then_s) if now_s > then_s else 0.0


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
    self._rates = collections.defaultdict(Rate)
    self._rates_now: dict[str, float] = {
      "env_steps": 0.0,
      "trainer_steps": 0.0,
      "proxy_bytes_up": 0.0,
    }

  def report(
    self,
    role: str,
    index: int,
    metrics: Mapping[str, typing.Any],
    finished: bool = False,
  ) -> None:
    """Takes the counts of node `index` of `role`."""
    node = self._nodes.setdefault((role, index), Node())
    node.metrics.update(metrics)
    node.finished = node.finished or finished
    node.heard_at_s = time.monotonic()

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
      "waiting": self._waiting(trainer),
      "metrics": trainer.get("metrics", {}),
      "proxy": self._proxy(),
    }

  def update_rates(self) -> None:
    """Measures the rates; called regularly by one owner."""
    now_s = time.monotonic()
    counts = {
      "env_steps": self._sum("worker", "env_steps"),
      "trainer_steps": self._merged("trainer").get("trainer_steps", 0),
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
    if not self._expected.get("proxy"):
      return {}
    rate = self._rates_now["proxy_bytes_up"]
    return {**self._merged("proxy"), "bytes_up_per_s": rate}

  def _best_return(self) -> float | None:
    return max((row["eval_return"] for row in self._evaluations), default=None)

  def _waiting(self, trainer: Mapping[str, typing.Any]) -> str | None:
    blocked = [
      wait
      for wait in self._values("worker", "waiting_s")
      if wait > _WAITING_AFTER_S
    ]
    if blocked:
      return (
        f"{len(blocked)} of {self._expected['worker']} workers wait for the "
        f"table to take items, for {max(blocked):.0f} s: the trainer is "
        "behind"
      )
    starved_s = trainer.get("starved_s") or 0.0
    if starved_s > _WAITING_AFTER_S:
      return (
        f"the trainer waits for transitions, for {starved_s:.0f} s: the "
        "workers are behind"
      )
    return None
