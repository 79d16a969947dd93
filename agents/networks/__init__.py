"""Neural networks, declared once for TensorFlow and for NumPy."""
