"""Control status: polls the status of a run from outside."""

from slipway.launch.control import calls, control_service
from slipway.launch.runs import run_address, run_folder, run_status

_CALL_S = 0.5  # a launcher that takes longer is not there


class ControlStatus:
  """A client that polls a run's launcher, also after a resume."""

  def __init__(self, folder: run_folder.RunFolder):
    """Keeps the folder; does not connect yet.

    Args:
      folder: folder of the run, which contains its address.
    """
    self._folder = folder
    self._client: control_service.ControlService | None = None

  def poll(self) -> run_status.RunStatus | None:
    """Returns the run's status; None: the launcher is not up."""
    try:
      if self._client is None:
        where = run_address.read(self._folder)
        if where is None:
          return None
        self._client = calls.connect(
          control_service.ControlService, where.address, _CALL_S
        )
      return self._client.status()
    except Exception:  # It is not there.
      self._client = None
      return None
