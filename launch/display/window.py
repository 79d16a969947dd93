"""Window: shows the frames of an episode on this machine's display."""

import os

import numpy as np

_LEAST_HEIGHT = 400  # pixels, to which smaller frames are magnified
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")


class Window:
  """A window of pygame, with the size of its frames."""

  def __init__(self):
    """Checks that there is a display; the first frame opens the window.

    Raises:
      ValueError: this machine has no display.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import pygame

    self._pygame, self._clock = pygame, pygame.time.Clock()
    try:
      if not any(map(os.environ.get, _DISPLAYS)):
        raise pygame.error(f"none of {', '.join(_DISPLAYS)} is set")
      pygame.display.init()
    except pygame.error as error:
      raise ValueError(
        f"this machine has no display ({error}), so no window can be opened: "
        "give --video, which writes a file"
      ) from error

  def show(self, frame: np.ndarray, frames_per_second: float) -> bool:
    """Shows a frame, uint8 [H, W, 3]; returns whether the window is open."""
    pygame = self._pygame
    surface = pygame.surfarray.make_surface(frame.swapaxes(0, 1))
    factor = -(-_LEAST_HEIGHT // frame.shape[0])
    surface = pygame.transform.scale_by(surface, factor)
    pygame.display.set_mode(surface.get_size()).blit(surface, (0, 0))
    pygame.display.flip()
    self._clock.tick(frames_per_second)
    return all(event.type != pygame.QUIT for event in pygame.event.get())
