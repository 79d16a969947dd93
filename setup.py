"""Finds the packages in this folder, which is the package `slipway` itself."""

import setuptools

_FOLDERS = ("agents", "configs", "environments", "launch", "replay")
_PACKAGES = setuptools.find_packages(include=[f"{x}*" for x in _FOLDERS])

setuptools.setup(
  script_name="setup.py",  # so that no wheel contains it
  packages=["slipway", *(f"slipway.{package}" for package in _PACKAGES)],
)
