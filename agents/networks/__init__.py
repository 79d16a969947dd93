"""Networks: torsos and heads, for learning and for acting."""
