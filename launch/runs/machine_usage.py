"""MachineUsage: what a machine and the run's processes on it use."""

import msgspec

# Name of the only machine, or of the driver host's node group in a cluster.
HOME = "home"


class ProcessUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """Usage of one process of the run, without its children.

  Attributes:
    cpu_cores: processor seconds per second, of all of its threads.
    memory_bytes: resident memory. Pages that nodes share with the fork server
      count in each of them.
  """

  cpu_cores: float = 0.0
  memory_bytes: int = 0


class GpuUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The load of one GPU by all processes, as nvidia-smi shows it.

  Attributes:
    utilization: part of the time in which a kernel ran, from 0 to 1.
    memory_used_bytes, memory_bytes: memory in use, and in all.
  """

  utilization: float = 0.0
  memory_used_bytes: int = 0
  memory_bytes: int = 0


class MachineUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
  """The load of one machine by all processes, and by those of the run.

  Rates are means over the time since the measurement before, about 1 s. The
  network is that of all interfaces but the loopback.

  Attributes:
    cores, cpu_cores: logical cores, and processor seconds per second.
    memory_bytes, memory_used_bytes: memory, and the part that processes can't
      get without swapping.
    disk_bytes, disk_used_bytes: size of the disk with the run's folder, and its
      used part.
    disk_read_bytes_per_s, disk_written_bytes_per_s: rates of all disks.
    network_received_bytes_per_s, network_sent_bytes_per_s: rates.
    gpus: load of each NVIDIA GPU, by its index; empty without nvidia-smi.
    processes: usage of each process of the run, by its node's name; 'launcher'
      is the process that runs the nodes, or contains all of them.
  """

  cores: int = 0
  cpu_cores: float = 0.0
  memory_bytes: int = 0
  memory_used_bytes: int = 0
  disk_bytes: int = 0
  disk_used_bytes: int = 0
  disk_read_bytes_per_s: float = 0.0
  disk_written_bytes_per_s: float = 0.0
  network_received_bytes_per_s: float = 0.0
  network_sent_bytes_per_s: float = 0.0
  gpus: dict[int, GpuUsage] = {}
  processes: dict[str, ProcessUsage] = {}
