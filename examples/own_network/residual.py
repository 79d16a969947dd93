"""A custom network: an MLP with residual connections.

    slipway train --config=ppo:cartpole \\
      --config.network.torso=residual:torso

A torso computes features [B, F] of observations [B, ...]. It is written once:
`layers.ops` is NumPy for workers, and TensorFlow for the trainer and exports
(agents/networks/numpy_ops.py has the functions). The linear layers of
network.hidden_sizes follow the torso.
"""

_UNITS, _BLOCKS = 64, 2  # features of each layer, and residual blocks


def torso(layers, observation):
  """Returns features [B, 64] of observations [B, ...].

  Args:
    layers: makes layers with variables, which are named by the first argument.
    observation: array or tensor of the backend `layers.ops`.
  """
  relu = layers.ops.relu
  x = layers.ops.float32(layers.ops.flatten(observation))
  x = layers.linear("torso/first", x, _UNITS)
  for block in range(_BLOCKS):
    y = layers.layer_norm(f"torso/norm_{block}", x)
    y = relu(layers.linear(f"torso/in_{block}", y, _UNITS))
    x = x + layers.linear(f"torso/out_{block}", y, _UNITS)
  return relu(x)
