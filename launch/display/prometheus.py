"""Prometheus: a run's status in the text format of Prometheus.

https://prometheus.io/docs/instrumenting/exposition_formats,
https://prometheus.io/docs/practices/naming
"""

import math
import numbers
import re
import typing
from collections.abc import Iterator, Mapping

import msgspec

from slipway.launch.runs import run_status

# Type of the content, for HTTP.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Fields that only increase, until a run is resumed from an older snapshot.
_COUNTERS = {
  *run_status.NodeCounts.__struct_fields__,
  *("inserted", "node_restarts", "restarts", "resumes", "sampled"),
  *("trainer_steps", "upload_failures"),
}
# Prefix of the names below a section, and the label of its keys, or None. Other
# sections prefix their own name, and their keys are parts of the names.
_SECTIONS = {
  "monitors": ("machine", "machine"),
  "processes": ("process", "process"),
  "gpus": ("gpu", "gpu"),
  "workers": ("worker", "worker"),
  "externals": ("external", "external"),
  "shards": ("shard", "shard"),
  "machines": ("machine", "machine"),
  "nodes": ("nodes", "role"),
  "node_restarts": ("node_restarts", "node"),
  "rates": ("", None),
}
# Sections whose fields of the same names are none.
_GAUGES = ("learner", "evaluation")
# Sections that are no measurements.
_IGNORED = ("limits", "learning_since")
# Characters that a text in quotes can't have.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def to_text(status: run_status.RunStatus) -> str:
  """Returns all finite numbers of a status, with units in their names.

  Lines are such as `slipway_env_steps_total{run="first"} 25000` and
  `slipway_process_memory_bytes{run="first",machine="home",process="trainer/0"}
  4.1e+08`, and all lines of a name follow its type.
  """
  labels = {"run": status.name}
  info = {**labels, "mode": status.mode, "phase": status.phase}
  samples: dict[str, list[str]] = {"slipway_run_info": [_to_sample(info, 1)]}
  for name, own, value in _find(("slipway",), labels, status):
    samples.setdefault(name, []).append(_to_sample(own, value))
  lines = []
  for name, found in samples.items():
    kind = "counter" if name.endswith("_total") else "gauge"
    lines += [f"# TYPE {name} {kind}", *(name + sample for sample in found)]
  return "\n".join(lines) + "\n"


def _find(
  path: tuple[str, ...], labels: Mapping[str, str], value: typing.Any
) -> Iterator[tuple[str, Mapping[str, str], float]]:
  """Yields name, labels and value of each number in a tree of structures."""
  if isinstance(value, msgspec.Struct):
    value = msgspec.structs.asdict(value)
  if isinstance(value, dict):
    for name, each in value.items():
      if name in _IGNORED or str(name).endswith("_at_s"):
        continue
      if name not in _SECTIONS:
        yield from _find((*path, str(name)), labels, each)
        continue
      # What is in a section within another has no name of the outer one.
      prefix, label = _SECTIONS[name]
      own = (*path[:1], prefix) if prefix else path[:1]
      parts = each.items() if label else [("", each)]
      for key, part in parts:
        added = {label: str(key)} if label else {}
        yield from _find(own, {**labels, **added}, part)
  elif isinstance(value, numbers.Real) and math.isfinite(value):
    yield _make_name(path), labels, float(value)


def _make_name(path: tuple[str, ...]) -> str:
  """Returns a metric's name: seconds in full, and counters as totals."""
  name = re.sub(r"[^a-zA-Z0-9_]", "_", "_".join(path))
  name = re.sub(r"_per_s(?=_|$)", "_per_second", name)
  name = re.sub(r"_s(?=_|$)", "_seconds", name)
  is_counter = path[-1] in _COUNTERS and path[1] not in _GAUGES
  return f"{name}_total" if is_counter else name


def _to_sample(labels: Mapping[str, str], value: float) -> str:
  """Returns labels and value of a metric's line."""
  texts = (f'{key}="{x.translate(_ESCAPES)}"' for key, x in labels.items())
  return f"{{{','.join(texts)}}} {value:.10g}"
