"""The command `slipway export RUN`, which writes the episodes of a table."""

import pathlib
import typing
from collections.abc import Sequence

import ml_collections
import numpy as np

from slipway.agents import core, registry
from slipway.environments import factory, user_code
from slipway.environments import recorder as recorder_lib
from slipway.launch.api import running
from slipway.launch.checks import flags as flags_lib
from slipway.launch.checks import run_config
from slipway.launch.nodes import snapshot_writer
from slipway.launch.runs import recorded_spaces, run_folder
from slipway.replay.items import transitions
from slipway.replay.tables import saved_table, table_spec

_USAGE = """\
Writes the episodes that a run's replay table holds, as Minari datasets.

  slipway export runs/first --out=episodes/first

The table is that of the newest snapshot, also of an active run. An episode may
lack steps at its beginning, which have left the table, and at its end, which
had not been made: it then counts as truncated.

In Python, slipway.load("runs/first").export("policy") exports the policy."""
_WRITTEN_BYTES = (
  1 << 28
)  # bytes of episodes in memory at which they are written


class Steps(typing.NamedTuple):
  """N steps of several environments, the oldest first.

  Attributes:
    before: observations before the steps, [N, ...].
    after: observations after them, [N, ...].
    terminated: bool [N], whether a step has terminated its episode.
    stream: number of the stream to which a step was written, [N]; that of
      several environments may be the same.
    action: actions, [N, ...].
    reward: rewards, float32 [N].
  """

  before: np.ndarray
  after: np.ndarray
  terminated: np.ndarray
  stream: np.ndarray
  action: np.ndarray
  reward: np.ndarray


@user_code.exit_as_error()
def main(argv: Sequence[str]) -> int:
  """Writes the episodes, and prints how many there are.

  Returns:
    Exit status: 0 if all episodes were written; 2 if the disk has rejected
    some.

  Raises:
    ValueError: a flag is invalid, or the table's items are no single steps.
    RunUnavailableError: the run does not save itself.
    UserCodeError: the environment can't be made.
  """
  flags = flags_lib.Flags()
  flags.add_text("out", None, "New folder in which the episodes are saved.")
  flags.add_bool("save", False, "Let an active run write a new snapshot first.")
  flags.add_trust()
  run = flags.parse_run(argv, _USAGE)
  if flags.out is None:
    raise ValueError(
      "--out is missing, so the episodes have no place: give --out=FOLDER"
    )
  folder = run_folder.RunFolder.open(run, flags.trust)
  config = run_config.read(folder.path, flags.trust)
  environment = factory.make(config.environment, 1, 0)
  environment.close()
  recorded_spaces.check(folder, environment.name, environment.spec)
  builder = registry.make_builder(config.agent)
  schema = builder.make_table(config, environment.spec).schema
  schema = _check_items(config, schema)
  snapshot = running.find_snapshot(folder, flags.save)
  recorder_lib.check_new_folder(f"--out={flags.out}", flags.out)
  steps = _read_steps(snapshot.path, config, schema)
  episodes, out, lost = find_episodes(steps), pathlib.Path(flags.out), 0
  recorder = recorder_lib.Recorder(
    out, out.name, config.environment, environment
  )
  size = 0
  for i in episodes:
    observations = np.concatenate((steps.before[i], steps.after[i[-1:]]))
    ended = bool(steps.terminated[i[-1]])
    recorder.add_episode(
      *(observations, steps.action[i], steps.reward[i], ended, not ended)
    )
    size += observations.nbytes
    if size > _WRITTEN_BYTES:
      lost, size = lost + recorder.close(), 0
  lost += recorder.close()
  clip = config.environment.reward_clip
  print(
    f"{len(episodes) - lost:,} episodes, {len(steps.reward):,} steps: "
    f"{flags.out}" + f"; rewards are clipped to {clip:g}" * bool(clip)
  )
  return 2 if lost else 0


def find_episodes(steps: Steps) -> list[np.ndarray]:
  """Finds which steps follow one another.

  A step continues the episode of its stream that has reached the observation
  before the step; of several ones, that which did so first.

  Returns:
    The indices of the steps of each episode, in order.
  """
  episodes: list[list[int]] = []
  # Episodes that continue, by stream and the observation they have reached.
  unfinished: dict[tuple[int, bytes], list[list[int]]] = {}
  for i, stream in enumerate(steps.stream.tolist()):
    reached = unfinished.get((stream, steps.before[i].tobytes()))
    if reached:
      episode = reached.pop(0)
    else:
      episodes.append(episode := [])
    episode.append(i)
    if not steps.terminated[i]:
      key = stream, steps.after[i].tobytes()
      unfinished.setdefault(key, []).append(episode)
  return [np.array(episode) for episode in episodes]


def _check_items(
  config: ml_collections.ConfigDict, schema: table_spec.ItemSchema
) -> transitions.TransitionSchema:
  """Returns a table's schema; raises ValueError if its items are no steps."""
  if core.is_recorded(config):
    why = f"dataset.path={config.dataset.path!r}, and no table"
  elif not isinstance(schema, transitions.TransitionSchema):
    why = f"agent={config.agent!r}, whose items are sequences"
  elif config.adder.n_step != 1:
    why = f"adder.n_step={config.adder.n_step}, and so sums of rewards"
  elif schema.stacked_frames:
    why = f"adder.stacked_frames={schema.stacked_frames}, and so single frames"
  elif config.replay.hindsight != "none":
    why = f"replay.hindsight={config.replay.hindsight!r}, and so other goals"
  else:
    return schema
  raise ValueError(
    f"the run has config.{why}, from which its episodes can't be restored: use "
    "config.recording.path in another run, whose workers then record them"
  )


def _read_steps(
  snapshot: pathlib.Path,
  config: ml_collections.ConfigDict,
  schema: transitions.TransitionSchema,
) -> Steps:
  """Reads the table of a snapshot."""
  folders = snapshot_writer.list_tables(snapshot, config)
  table = saved_table.read(folders, schema.item_shape)
  records = table.content.reshape(-1, schema.record.record_bytes)
  found, _ = schema.unpack(records)
  stream = np.zeros(len(table.read), np.int64)
  if table.streams is not None:
    _, stream = np.unique(table.streams, return_inverse=True)
  return Steps(
    found.o_tm1.numpy(),
    found.o_t.numpy(),
    found.discount_t.numpy() == 0,
    stream.repeat(schema.transitions_per_item),
    found.a_tm1.numpy(),
    found.r_t.numpy() / np.float32(config.environment.reward_scale),
  )
