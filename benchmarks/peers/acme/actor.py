"""Acme's actor: collects with the loop, actor and adder of Acme's DQN.

`benchmarks.worker` runs this program with the packages of requirements.txt, and
reads the measurements, one line of JSON, from its standard output.
"""

# pyright: reportMissingImports=false, reportArgumentType=false

import argparse
import json

import acme
import portpicker
import reverb
import sonnet as snt
import tensorflow as tf
import trfl
from absl import flags
from acme.adders import reverb as adders
from acme.agents.tf import actors
from acme.tf import utils as tf2_utils
from acme.utils import counting, loggers

from benchmarks import collected, dm_environment, processes


def main() -> None:
  """Measures the actor as the command line says."""
  parser = argparse.ArgumentParser()
  parser.add_argument("--environment", required=True)
  parser.add_argument("--hidden_sizes", type=json.loads, required=True)
  parser.add_argument("--capacity", type=int, required=True)
  parser.add_argument("--priority_exponent", type=float, required=True)
  parser.add_argument("--n_step", type=int, required=True)
  parser.add_argument("--discount", type=float, required=True)
  parser.add_argument("--epsilon", type=float, required=True)
  parser.add_argument("--warm_up_steps", type=int, required=True)
  parser.add_argument("--steps", type=int, required=True)
  args = parser.parse_args()
  with processes.serving(serve, args) as (pid, address):
    print(json.dumps(collect(args, address, pid)._asdict()))


def serve(args: argparse.Namespace) -> tuple[reverb.Server, str]:
  """Starts a server with the table of Acme's DQN.

  Args:
    args: the command line.

  Returns:
    The server, which must be kept referenced, and its address.
  """
  environment = dm_environment.GymnasiumEnvironment(args.environment)
  table = reverb.Table(
    name=adders.DEFAULT_PRIORITY_TABLE,
    sampler=reverb.selectors.Prioritized(args.priority_exponent),
    remover=reverb.selectors.Fifo(),
    max_size=args.capacity,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=adders.NStepTransitionAdder.signature(
      acme.make_environment_spec(environment)
    ),
  )
  port = portpicker.pick_unused_port()
  return reverb.Server([table], port=port), f"localhost:{port}"


def collect(
  args: argparse.Namespace, address: str, server_pid: int
) -> collected.Collected:
  """Collects and writes; measures this process and the server.

  Args:
    args: the command line.
    address: address of the server from `serve`.
    server_pid: process id of the server.
  """
  flags.FLAGS.mark_as_parsed()  # Acme's loop reads Launchpad's flags
  environment = dm_environment.GymnasiumEnvironment(args.environment)
  spec = acme.make_environment_spec(environment)
  network = snt.nets.MLP([*args.hidden_sizes, spec.actions.num_values])
  tf2_utils.create_variables(network, [spec.observations])
  epsilon = tf.Variable(args.epsilon, trainable=False)
  policy = snt.Sequential(
    [network, lambda q: trfl.epsilon_greedy(q, epsilon=epsilon).sample()]
  )
  actor = actors.FeedForwardActor(
    policy,
    adders.NStepTransitionAdder(
      client=_Client(address), n_step=args.n_step, discount=args.discount
    ),
  )
  counter = counting.Counter()
  loop = acme.EnvironmentLoop(
    environment, actor, counter=counter, logger=loggers.NoOpLogger()
  )
  loop.run(num_steps=args.warm_up_steps)
  before = counter.get_counts()["steps"]
  mine, servers = processes.cpu(), processes.cpu(server_pid)
  loop.run(num_steps=args.steps)
  passed = processes.since(mine)
  server_passed = processes.since(servers, server_pid)
  steps = int(counter.get_counts()["steps"])
  return collected.Collected(
    steps - int(before),
    collected.count_inserted(address) / steps,
    *passed,
    server_passed.cpu_s,
  )


class _Client(reverb.Client):
  """A Reverb client that the adders of Acme 0.4.0 can use.

  They pass `get_signature_timeout_ms`, which the writer of Reverb 0.11 does not
  take.
  """

  def trajectory_writer(self, num_keep_alive_refs, **unused):
    """Returns a writer; see `reverb.Client.trajectory_writer`."""
    return super().trajectory_writer(num_keep_alive_refs)


if __name__ == "__main__":
  main()
