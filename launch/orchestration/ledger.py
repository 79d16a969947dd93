"""The ledger: what the nodes have reported, added up to the run's status."""

import collections
import dataclasses
import math
import time
import typing
from collections.abc import Callable, Collection, Mapping

import ml_collections

from configs import sizes
from launch.orchestration import rate, rounds, waits
from launch.runs import run_counters
from replay import table_status

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

# Counts of the whole run by which its learning is measured.
_GROWING = ("wall_s", "env_steps", "trainer_steps")

# Counts of the whole run that go back where a node begins at a snapshot.
_COUNTS_THAT_GO_BACK = ("env_steps", "trainer_steps", "inserted")

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
  "variable_loads",
)


@dataclasses.dataclass
class Node:
  """The newest report of one node."""

  metrics: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
  finished: bool = False
  heard_at_s: float = 0.0  # monotonic; 0.0: never
  waiting_since_s: float | None = None  # monotonic
  restarts: int = 0
  lives: int = 0  # processes that were this node, those before a resume too
  _life: float | None = None
  _before: dict[str, int] = dataclasses.field(default_factory=dict)

  @classmethod
  def resumed(cls, saved: Mapping[str, typing.Any]) -> "Node":
    """A node that was there before the run stopped, from `saved()`."""
    node = cls(
      dict(saved["counts"]), restarts=saved["restarts"], lives=saved["lives"]
    )
    node._keep_counts()
    return node

  def saved(self) -> dict[str, typing.Any]:
    """What outlives a stop of the run, as JSON can have it."""
    counts = {name: self.metrics.get(name, 0) for name in _COUNTS_OF_A_LIFE}
    return {"counts": counts, "restarts": self.restarts, "lives": self.lives}

  @property
  def up(self) -> bool:
    """Whether it has reported, and not that it has ended."""
    return self.heard_at_s > 0.0 and not self.finished

  def is_new_life(self, metrics: Mapping[str, typing.Any]) -> bool:
    """Whether a report is the first of a node that was started again."""
    life = metrics.get("life", self._life)
    return self._life is not None and life != self._life

  def hear(self, metrics: Mapping[str, typing.Any], finished: bool) -> None:
    """Takes a report; what it leaves out stays as it was."""
    again = self.is_new_life(metrics)
    if again:
      self._keep_counts()
      self.restarts += 1
    if again or self.heard_at_s == 0.0:
      self.lives += 1
      self.finished = False
    self._life = metrics.get("life", self._life)
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

  def _keep_counts(self) -> None:
    """Keeps what a node counted before it died: its successor counts from 0."""
    get = self.metrics.get
    self._before = {name: get(name, 0) for name in _COUNTS_OF_A_LIFE}
    # What was in flight when it died.
    written, confirmed = get("items_written", 0), get("items_confirmed", 0)
    self._before["items_lost"] = written - confirmed

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
    resumed: run_counters.RunCounters | None = None,
  ):
    """Starts with no reports.

    Args:
      config: the whole config.
      name: of the run.
      expected: how many nodes of each role will report.
      started_at_s: unix seconds of the user's command.
      resumed: of the snapshot that the run goes on from.
    """
    self._config = config
    self._sizes = sizes.Sizes.of(config)
    self._name = name
    self._expected = dict(expected)
    self._started_at_s = started_at_s
    self._nodes: dict[tuple[str, int], Node] = {}
    self._absent: frozenset[tuple[str, int]] = frozenset()
    self._resumed = resumed
    self._evaluations = resumed.evaluations if resumed else 0
    self._evaluation: Mapping[str, typing.Any] = {}  # the last one
    self._best_return = resumed.best_eval_return if resumed else None
    self._first_step_at_s: float | None = None
    self._learning_since: Mapping[str, float] | None = None
    self._lost: dict[str, int] = dict.fromkeys(_COUNTS_THAT_GO_BACK, 0)
    if resumed:
      self._evaluation = {"eval_return": resumed.eval_return}
      self._lost |= resumed.lost
      for node, saved in resumed.nodes.items():
        role, _, index = node.partition("/")
        self._nodes[role, int(index)] = Node.resumed(saved)
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
    node = self._nodes.setdefault((role, index), Node())
    if node.is_new_life(metrics):
      self._count_losses(node, role, metrics.get("began_at", {}))
    node.hear(metrics, finished)
    first_step_at_s = metrics.get("first_step_at_s")
    if self._first_step_at_s is None and first_step_at_s is not None:
      self._first_step_at_s = first_step_at_s
      status = self.status()
      self._learning_since = {name: status[name] for name in _GROWING}

  def count_restart(self, role: str, index: int) -> None:
    """Takes that a node was started again which does not report itself."""
    self._nodes.setdefault((role, index), Node()).restarts += 1

  def expect(self, role: str, count: int) -> None:
    """Changes how many nodes of a role will report."""
    self._expected[role] = count

  def miss(self, nodes: Collection[tuple[str, int]]) -> None:
    """Says which nodes have no machine now: nobody waits for them."""
    self._absent = frozenset(nodes)

  def lives(self, role: str, index: int) -> tuple[int, int]:
    """How many processes were a node so far, and their environment steps."""
    node = self._nodes.get((role, index), Node())
    return node.lives, node.metrics.get("env_steps", 0)

  def add_evaluation(self, row: Mapping[str, typing.Any]) -> bool:
    """Takes an evaluation; returns whether it is the best so far."""
    self._evaluations += 1
    self._evaluation = row
    best, reached = self._best_return, row["eval_return"]
    if best is not None and reached < best:
      return False
    self._best_return = reached
    return True

  def counters(self) -> run_counters.RunCounters:
    """What a snapshot keeps of all this."""
    status = self.status()
    return run_counters.RunCounters(
      mode=self._config.mode,
      environment_steps=status["env_steps"],
      trainer_steps=status["trainer_steps"],
      variables_version=self.variables_version(),
      replay_size=status["replay_size"],
      wall_s=status["wall_s"],
      evaluations=self._evaluations,
      eval_return=status["eval_return"],
      best_eval_return=self._best_return,
      resumes=status["resumes"],
      lost=self._lost,
      nodes={
        f"{role}/{index}": node.saved()
        for (role, index), node in self._nodes.items()
      },
    )

  def variables_version(self) -> int:
    """The highest that anything was told of; 0: none was published."""
    known = [self._resumed.variables_version if self._resumed else 0]
    for role in ("trainer", "proxy", "worker"):
      known += [int(v) for v in self._values(role, "variables_version")]
    return max(known)

  def collected_version(self) -> int:
    """The version with which every worker has collected its share; 0: none."""
    versions = [
      node.metrics.get("collected_version", 0) if node.up else 0
      for node in self._of("worker")
    ]
    complete = len(versions) >= self._present("worker")
    return min(versions, default=0) if complete else 0

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
    return ended >= self._present(role)

  def all_up(self) -> bool:
    """Whether every expected node has reported at least once."""
    return all(
      sum(node.heard_at_s > 0.0 for node in self._of(role))
      >= self._present(role)
      for role in self._expected
    )

  def status(self) -> dict[str, typing.Any]:
    """The run in one flat dictionary; `update_rates` keeps its rates fresh."""
    trainer = self._merged("trainer")
    replay = self._replay()
    last, resumed = self._evaluation, self._resumed
    first_step_at_s = self._first_step_at_s
    return {
      "name": self._name,
      "mode": self._config.mode,
      "resumes": resumed.resumes + 1 if resumed else 0,
      "wall_s": (
        time.time() - self._started_at_s + (resumed.wall_s if resumed else 0.0)
      ),
      "start_up_s": (
        first_step_at_s - self._started_at_s if first_step_at_s else None
      ),
      "learning_since": self._learning_since,
      "env_steps": self._sum("worker", "env_steps"),
      "env_steps_per_s": self._rates_now["env_steps"],
      "env_steps_lost": self._lost["env_steps"],
      "trainer_steps": trainer.get(
        "trainer_steps", resumed.trainer_steps if resumed else 0
      ),
      "trainer_steps_lost": self._lost["trainer_steps"],
      "trainer_steps_per_s": self._rates_now["trainer_steps"],
      "items_written": self._sum("worker", "items_written"),
      "items_confirmed": self._sum("worker", "items_confirmed"),
      "items_lost": self._sum("worker", "items_lost") + self._lost["inserted"],
      "items_per_s": self._rates_now["items_confirmed"],
      "reconnects": self._sum("worker", "reconnects"),
      "replay_size": replay.get("size", resumed.replay_size if resumed else 0),
      "replay_capacity": self._config.replay.shards * self._sizes.capacity,
      "replay_shards": self._shards(),
      "replay_shards_up": trainer.get("shards_up"),
      "inserted": replay.get("inserted", 0),
      "sampled": replay.get("sampled", 0),
      "samples_per_insert": replay.get("samples_per_insert", 0.0),
      "samples_per_insert_asked": self._config.replay.samples_per_insert,
      "variables_version": trainer.get("variables_version", 0),
      "variable_loads_per_trainer_step": self._loads_per_trainer_step(),
      "variable_loads_per_trainer_step_asked": (
        1.0 / rounds.publish_period(self._config)
      ),
      "variables_age_s": self._mean("worker", "variables_age_s"),
      "eval_return": last.get("eval_return"),
      "eval_episodes": last.get("eval_episodes", 0),
      "best_eval_return": self._best_return,
      "evaluations": self._evaluations,
      "snapshots": trainer.get("snapshots", 0),
      "snapshot_age_s": (
        time.time() - trainer["snapshot_at_s"]
        if trainer.get("snapshot_at_s")
        else None
      ),
      "snapshot_pause_s": trainer.get("snapshot_pause_s"),
      "snapshot_uploaded": trainer.get("snapshot_uploaded"),
      "snapshot_upload_failures": trainer.get("snapshot_upload_failures", 0),
      "training_return": self._mean("worker", "training_return"),
      "limits": self._config.limits.to_dict(),
      "nodes": {
        role: [sum(node.up for node in self._of(role)), count]
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
      if node.up and node.heard_at_s < since_s and self._is_present(role, index)
    ]

  def unheard_since(self, since_s: float) -> bool:
    """Whether a node that is up has not reported since monotonic seconds."""
    return any(
      node.up and node.heard_at_s < since_s
      for place, node in self._nodes.items()
      if place not in self._absent
    )

  def update_rates(self) -> None:
    """Measures the rates; called regularly by one owner."""
    now_s = time.monotonic()
    counts = {
      "env_steps": self._sum("worker", "env_steps"),
      "trainer_steps": self._merged("trainer").get("trainer_steps", 0),
      "items_confirmed": self._sum("worker", "items_confirmed"),
      "proxy_bytes_up": self._sum("proxy", "bytes_up"),
      "variable_loads": self._sum("worker", "variable_loads"),
    }
    for name, count in counts.items():
      self._rates_now[name] = self._rates[name].add(count, now_s)

  def _count_losses(
    self, node: Node, role: str, began_at: Mapping[str, int]
  ) -> None:
    """Counts what a node that began at a snapshot does not know of."""
    known = self.status()
    if role == "replay" and self._config.replay.shards > 1:
      # Its own items only, and the steps that they took.
      known = node.metrics.get("replay", {"inserted": 0})
      lost = max(0, known["inserted"] - began_at.get("inserted", 0))
      self._lost["env_steps"] += lost * self._sizes.steps_per_item
    for name, count in began_at.items():
      self._lost[name] += max(0, known[name] - count)

  def _loads_per_trainer_step(self) -> float | None:
    """How often a worker, on average, has taken new variables over."""
    loads_per_s = self._rates_now["variable_loads"]
    updates_per_s = self._rates_now["trainer_steps"]
    if updates_per_s <= 0.0:
      return None
    return loads_per_s / updates_per_s / self._expected["worker"]

  def _of(self, role: str) -> list[Node]:
    """The nodes of a role that were heard of and are still wanted."""
    return [
      node
      for (of, index), node in self._nodes.items()
      if of == role and self._is_present(role, index)
    ]

  def _is_present(self, role: str, index: int) -> bool:
    """Whether a node is wanted, and has a machine."""
    wanted = index < self._expected.get(role, 0)
    return wanted and (role, index) not in self._absent

  def _present(self, role: str) -> int:
    """How many nodes of a role are wanted and have a machine."""
    count = self._expected.get(role, 0)
    return sum(self._is_present(role, index) for index in range(count))

  def _merged(self, role: str) -> dict[str, typing.Any]:
    merged: dict[str, typing.Any] = {}
    for node in self._of(role):
      merged.update(node.metrics)
    return merged

  def _values(self, role: str, metric: str) -> list[typing.Any]:
    values = [node.metrics.get(metric) for node in self._of(role)]
    return [value for value in values if value is not None]

  def _sum(self, role: str, metric: str) -> int:
    """Of all nodes there ever were: what was done is done."""
    return sum(
      int(node.metrics.get(metric) or 0)
      for (of, _), node in self._nodes.items()
      if of == role
    )

  def _mean(self, role: str, metric: str) -> float | None:
    values = self._values(role, metric)
    return sum(values) / len(values) if values else None

  def _shards(self) -> dict[str, dict[str, typing.Any]]:
    """Counts of each shard by its index; {}: there is one table."""
    if self._config.replay.shards == 1:
      return {}
    return {
      str(index): node.metrics["replay"]
      for (role, index), node in sorted(self._nodes.items())
      if role == "replay" and "replay" in node.metrics
    }

  def _replay(self) -> dict[str, typing.Any]:
    """Counts of the table, or of all shards together; {}: none are known."""
    if self._config.replay.shards == 1:
      merged = {**self._merged("trainer"), **self._merged("replay")}
      return merged.get("replay", {})
    counts = [
      (shard["size"], shard["inserted"], shard["sampled"])
      for shard in self._shards().values()
    ]
    if not counts:
      return {}
    status = table_status.TableStatus.of_shards(counts, self._sizes.min_size)
    return status._asdict()

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
