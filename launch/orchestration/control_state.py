"""ControlState: the saved state of the control node."""

import msgspec

from slipway.launch.orchestration import commands, messages, saved_run


class ControlState(msgspec.Struct, forbid_unknown_fields=True):
  """The saved state from which the control node continues after a restart.

  Attributes:
    config: the whole config as JSON, in the format of `config_file`.
    run: reports and counts of the run.
    commands: the settings from which each node's command is made.
    stopped_because: reason of the stop, or None if the run was not stopped.
    stop_requested_at_s: monotonic seconds at which the stop was requested.
    stop_grace_from_s: monotonic seconds at which the first grace period of the
      stop order begins. It moves forward while the last snapshot is written.
    stops_quickly: whether the last snapshot may take only seconds, since the
      nodes may be killed soon: after a signal, a failure, or the loss of the
      launcher.
    snapshot: number of the newest snapshot for which the hooks were called, or
      0 if there is none.
    evaluation_key: `Evaluation.key` of the last evaluation that was counted.
    evaluation_reply: the reply to that evaluation.
  """

  config: str
  run: saved_run.SavedRun
  commands: commands.Commands
  stopped_because: str | None = None
  stop_requested_at_s: float = 0.0
  stop_grace_from_s: float = 0.0
  stops_quickly: bool = False
  snapshot: int = 0
  evaluation_key: str = ""
  evaluation_reply: messages.EvaluationReply = messages.EvaluationReply()
