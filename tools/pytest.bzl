"""Bazel rule for a folder of tests: each *_test.py is a separate target."""

def pytest_tests(deps = [], data = [], size = "medium", tags = [], args = []):
    """Declares a py_test for each *_test.py of the folder.

    Args:
      deps: libraries that the tests import.
      data: files that the tests read.
      size: Bazel's size, which sets the timeout: medium is 300 s.
      tags: Bazel's tags, such as "manual".
      args: arguments of pytest, in addition to the file.
    """
    helpers = native.glob(["*.py"], exclude = ["*_test.py"])
    for src in native.glob(["*_test.py"]):
        native.py_test(
            name = src[:-len(".py")],
            size = size,
            srcs = [src, "//tools:run_pytest.py"] + helpers,
            args = ["$(location %s)" % src] + args,
            data = ["//:pyproject.toml"] + data,
            main = "//tools:run_pytest.py",
            tags = tags,
            deps = deps,
        )
