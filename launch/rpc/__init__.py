"""RPC: typed calls between the processes of a run, over unix sockets."""
