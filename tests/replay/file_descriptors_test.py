"""Test of a process that runs out of file descriptors during a call."""

import subprocess
import sys
import textwrap

_LIMIT = 100


def test_calls_fail_without_free_descriptors_and_then_work_again():
  # In a separate process, because an abort would end this one.
  program = textwrap.dedent(f"""
    import contextlib, os, resource

    from slipway.replay.variables import variables

    import reverb

    server = reverb.Server([variables.make_table()])
    client = reverb.Client(f"localhost:{{server.port}}")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, ({_LIMIT}, hard))
    opened = []
    with contextlib.suppress(OSError):
      while True:
        opened.append(os.open(os.devnull, os.O_RDONLY))
    try:
      client.server_info(1)
    except Exception as error:
      print("failed with", type(error).__name__)
    for descriptor in opened:
      os.close(descriptor)
    print("then found", *client.server_info(60))
  """)
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  assert done.stdout.splitlines() == [
    "failed with DeadlineExceededError",
    "then found variables",
  ]
