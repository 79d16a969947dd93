"""Control status: the status of a run's control node, read from outside."""

from slipway.launch.orchestration import control_service
from slipway.launch.rpc import client as rpc_client
from slipway.launch.runs import run_address, run_folder, run_status

_CALL_S = 0.5  # a control node that takes longer is not there


class ControlStatus:
  """Asks a control node, which comes, goes and comes back elsewhere."""

  def __init__(self, folder: run_folder.RunFolder):
    """Asks nothing yet.

    Args:
      folder: of the run, which names the node's address.
    """
    self._folder = folder
    self._client: control_service.ControlService | None = None

  def ask(self) -> run_status.RunStatus | None:
    """The run's status; None: the node has yet to come up, or back."""
    try:
      if self._client is None:
        where = run_address.read(self._folder)
        if where is None:
          return None
        self._client = rpc_client.connect(
          control_service.ControlService, where.address, _CALL_S
        )
      return self._client.status()
    except Exception:  # It is not there.
      self._client = None
      return None
