"""Skips tests where a program is missing."""

import shutil

import pytest


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Skip a test where a program is missing, and name its package."""
    told = f"{program} is not on this machine: apt-get install {package}"
    return pytest.mark.skipif(shutil.which(program) is None, reason=told)
