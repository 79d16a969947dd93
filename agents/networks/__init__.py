"""Networks: torsos and heads, for learning in TensorFlow, acting in NumPy."""
