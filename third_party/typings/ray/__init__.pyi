# Ray is in .venv-ray only, and the types are checked with .venv.
from typing import Any

def __getattr__(name: str) -> Any: ...
