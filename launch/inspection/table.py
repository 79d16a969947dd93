"""Table inspection: what a run's replay table held when it was saved."""

import pathlib
from collections.abc import Iterator, Mapping

import ml_collections
import numpy as np
from matplotlib import image

from slipway.agents import batch_weights
from slipway.launch.inspection import report
from slipway.launch.nodes import snapshot_writer
from slipway.replay.items import transitions
from slipway.replay.tables import saved_table, table_spec

Row = report.Row
_MAX_SHOWN = 64  # values of an item's field that are listed
_MAX_ROWS = 8  # images of a sequence in its picture, the first ones
_MIN_PIXELS = 200  # height of the picture of one image


def inspect(
  snapshot: pathlib.Path,
  config: ml_collections.ConfigDict,
  schema: table_spec.ItemSchema,
  trainer_steps: int,
  items: int,
  folder: pathlib.Path | None,
) -> report.Report:
  """Returns the statistics of a table, and some of its items in full.

  Args:
    schema: schema of the table's items.
    trainer_steps: updates of the learner until the snapshot.
    items: number of items to show at each end of the table's order.
    folder: folder for pictures of their observations, or None for no pictures.

  Raises:
    ValueError: a file is damaged.
    OSError: a file can't be read, or a picture can't be written.
  """
  folders = snapshot_writer.list_tables(snapshot, config)
  table = saved_table.read(folders, schema.item_shape, items)
  size, read = len(table.order), len(table.read)
  rows = [
    Row("size", size, "items in all shards"),
    *(Row(name, count) for name, count in table.counts.items()),
    *_describe_evicted(table),
  ]
  found = {"table": rows}
  if not size:
    return found
  rows += _describe_sampling(table, config.replay, trainer_steps)
  if table.streams is not None:
    _, counts = np.unique(table.streams, return_counts=True)
    shares = (np.sort(counts)[::-1] / size).tolist()
    rows.append(
      Row("stream_shares", shares, "fraction of the items per stream")
    )
  fields = _unpack(table, schema)
  contents = [x for k, x in fields.items() if k != transitions.VERSION]
  different = {b"".join(x[i].tobytes() for x in contents) for i in range(read)}
  rows += [
    Row("decoded", read, "items, at random if the table has more"),
    Row("repeated", read - len(different), "of them equal another one"),
  ]
  found["quantiles"] = [
    Row(name, report.quantiles(values), f"{values.shape[1:] or ''}")
    for name, values in (table.columns | fields).items()
  ]
  names = ("newest", "oldest")
  if table.priority_exponent is not None:
    names = ("highest priority", "lowest priority")
  ends = (table.order[:items], table.order[items:][::-1][:items])
  for name, indices in zip(names, ends, strict=True):
    for place, index in enumerate(indices.tolist(), 1):
      own = {k: x[index] for k, x in table.columns.items()}
      at = np.searchsorted(table.read, index)
      own |= {k: x[at] for k, x in fields.items()}
      title = f"{name} {place}"
      found[title] = [*_describe_item(title, own, folder)]
  return found


def _unpack(
  table: saved_table.SavedTable, schema: table_spec.ItemSchema
) -> dict[str, np.ndarray]:
  """Returns the fields of the items `table.read`, [K, ...] by name."""
  content, shape = table.content, (len(table.read),)
  if schema.transitions_per_item > 1:
    shape = content.shape[:2]
    content = content.reshape(-1, content.shape[-1])
  learned, versions = schema.unpack(content)
  fields = {**learned._asdict(), transitions.VERSION: versions}
  fields |= fields.pop("extras", {})
  return {
    name: values.numpy().reshape(*shape, *values.shape[1:])
    for name, values in fields.items()
    if values is not None
  }


def _describe_evicted(table: saved_table.SavedTable) -> Iterator[report.Row]:
  """Yields how often items were sampled before they left."""
  samples = table.columns.get("times_sampled")
  evicted = table.counts["inserted"] - len(table.order)
  yield Row("evicted", evicted, "items that have left")
  if samples is None or not evicted:
    return
  # A resume may change a table's count of samples, which is then no basis.
  rest = table.counts["sampled"] - int(samples.sum())
  if rest >= 0:
    yield Row("samples_of_evicted", rest / evicted, "mean per evicted item")
  left = table.counts["unique_sampled"] - int((samples > 0).sum())
  if 0 <= left <= evicted:
    yield Row("never_sampled", 1 - left / evicted, "fraction of the evicted")


def _describe_sampling(
  table: saved_table.SavedTable,
  replay: ml_collections.ConfigDict,
  trainer_steps: int,
) -> Iterator[report.Row]:
  """Yields how even the samples are, and the weights that make up for it."""
  probabilities = table.columns["probability"]
  effective = 1 / np.sum(probabilities**2)
  meaning = "as many, sampled uniformly, repeat as often: 1 / sum P^2"
  yield Row("effective_items", effective, meaning)
  if table.priority_exponent is None:
    return
  beta = float(batch_weights.compute_exponent(replay, trainer_steps))
  yield Row("priority_exponent", table.priority_exponent, "alpha")
  yield Row("importance_exponent", beta, "beta of the importance weights w")
  sampled = probabilities[probabilities > 0]
  weights = sampled**-beta  # up to a factor
  effective = np.sum(sampled * weights) ** 2 / np.sum(sampled * weights**2)
  meaning = "(sum P w)^2 / sum P w^2: effective fraction of a batch"
  yield Row("effective_batch", effective, meaning)


def _describe_item(
  title: str, own: Mapping[str, np.ndarray], folder: pathlib.Path | None
) -> Iterator[report.Row]:
  """Yields an item's values, or the quantiles of a large field."""
  for name, values in own.items():
    if values.size <= _MAX_SHOWN:
      yield Row(name, values.tolist())
    else:
      yield Row(name, report.quantiles(values), str(values.shape))
    # An image is [S, H, W] or [H, W, C], or a sequence of these.
    if folder and values.ndim in (3, 4) and values.size > _MAX_SHOWN:
      path = folder / f"{title.replace(' ', '_')}_{name}.png"
      _write_picture(path, values)
      yield Row(f"{name}_picture", str(path))


def _write_picture(path: pathlib.Path, values: np.ndarray) -> None:
  """Writes a PNG file with a row per image, oldest frames on the left."""
  rows = values.reshape(-1, *values.shape[-3:])[:_MAX_ROWS].astype(np.float32)
  if rows.shape[3] < rows.shape[1]:  # channels are last
    rows = np.moveaxis(rows, 3, 1)
  scale = max(1, _MIN_PIXELS // rows.shape[2])
  tiles = rows.repeat(scale, 2).repeat(scale, 3)
  tiles[..., -1, :] = tiles[..., -1] = rows.mean()  # lines between the tiles
  picture = tiles.swapaxes(1, 2).reshape(-1, tiles.shape[1] * tiles.shape[3])
  image.imsave(path, picture, cmap="gray")
