"""Window: shows the frames of an episode on this machine's display."""

import os

import numpy as np

_LEAST_HEIGHT = 400  # pixels, to which smaller frames are magnified


class Window:
  """A window of pygame, with the size of its first frame."""

  def __init__(self, title: str):
    """Checks that there is a display; the first frame opens the window.

    Raises:
      ValueError: this machine has no display.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import pygame

    self._pygame, self._title = pygame, title
    variables = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    reason = f"none of {', '.join(variables)} is set"
    try:
      if any(map(os.environ.get, variables)):
        pygame.display.init()
        self._clock = pygame.time.Clock()
        return
    except pygame.error as error:
      reason = str(error)
    raise ValueError(
      f"this machine has no display ({reason}), so no window can be opened: "
      "give --video, which writes a file"
    )

  def show(self, frame: np.ndarray, frames_per_second: float) -> bool:
    """Shows a frame when its time has come.

    Args:
      frame: uint8 [H, W, 3].
      frames_per_second: rate of the frames.

    Returns:
      Whether the window is still open; the user may have closed it.
    """
    pygame = self._pygame
    factor = -(-_LEAST_HEIGHT // frame.shape[0])
    surface = pygame.surfarray.make_surface(frame.swapaxes(0, 1))
    surface = pygame.transform.scale_by(surface, factor)
    screen = pygame.display.get_surface()
    if screen is None or screen.get_size() != surface.get_size():
      screen = pygame.display.set_mode(surface.get_size())
      pygame.display.set_caption(self._title)
    screen.blit(surface, (0, 0))
    pygame.display.flip()
    self._clock.tick(frames_per_second)
    return all(event.type != pygame.QUIT for event in pygame.event.get())

  def close(self) -> None:
    """Closes the window."""
    self._pygame.display.quit()
