"""Bad input: refused in one line before anything is started or made."""

import concurrent.futures

import pytest

# flags, what the line must contain
REFUSED = {
  "unknown environment": (
    ["--config.environment.name=CartPol-v1"],
    ["config.environment.name", "'CartPol-v1'"],
  ),
  "unknown argument of an environment": (
    ["--config.environment.kwargs.gravty=3"],
    ["config.environment", "gravty"],
  ),
  "continuous actions": (
    ["--config.environment.name=Pendulum-v1"],
    ["config.environment.name", "'Pendulum-v1'", "discrete"],
  ),
  "unknown agent": (["--config.agent=dqnn"], ["config.agent", "'dqnn'", "dqn"]),
  "capacity below a batch": (
    ["--config.replay.capacity=63"],
    ["config.replay.capacity=63", "config.learner.batch_size=64"],
  ),
  "more than fits": (
    ["--config.replay.min_size=50_001"],
    ["config.replay.min_size=50001", "config.replay.capacity=50000"],
  ),
  "unknown field": (
    ["--config.replay.capacty=9"],
    ["--config.replay.capacty=9", "--config.replay.capacity"],
  ),
  "wrong type": (
    ["--config.replay.capacity=many"],
    ["--config.replay.capacity=many", "int"],
  ),
  "a tuple of words": (
    ["--config.network.hidden_sizes=(a,b)"],
    ["--config.network.hidden_sizes", "a"],
  ),
  "vectors for a CNN": (
    ["--config.network.torso=nature_cnn"],
    ["config.network.torso", "nature_cnn"],
  ),
  "a folder that is a file": (
    ["--run_dir=pyproject.toml"],
    ["'pyproject.toml'"],
  ),
  "a folder nobody may write to": (["--run_dir=/proc/self"], ["'/proc/self'"]),
  "a name that is a path": (["--name=../a"], ["'../a'"]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, run_class):
  """What each row's command did: the run, and its exit status."""
  start = tmp_path_factory.mktemp("refused")

  def refuse(title):
    folder = start / title.replace(" ", "_")
    folder.mkdir()
    run = run_class(folder, *REFUSED[title][0])
    try:
      return run, run.wait()
    finally:
      run.kill()

  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    return dict(zip(REFUSED, pool.map(refuse, REFUSED), strict=True))


@pytest.mark.parametrize("title", REFUSED)
def test_bad_input(runs, title):
  run, status = runs[title]
  assert status == 2, run.stderr
  (line,) = run.stderr.splitlines()
  assert line.startswith("train: ")
  for words in REFUSED[title][1]:
    assert words in line
  assert run.stdout == ""
  run.check_nothing_left()
  assert not run.path.exists()
