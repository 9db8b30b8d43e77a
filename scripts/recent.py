#!/usr/bin/env python3
"""Tells whether a test that takes minutes can have changed its result: whether the working tree or the last 20 commits
changed a file under one of the paths.

    scripts/recent.py PATH...

Exit code 0: yes, or COMERA_ALL is set (as by `make check`), or the history is not known. Else it prints a line and ends
with 77, which ctest shows as skipped.
"""

import os
import subprocess
import sys

from sources import GIT, ROOT, touched

COMMITS = 20


def main():
    paths = tuple(sys.argv[1:])
    for path in paths:
        if not (ROOT / path).exists():
            sys.exit(f"recent.py: there is no {path}")
    if os.environ.get("COMERA_ALL"):
        return 0
    try:
        counted = subprocess.run([*GIT, "rev-list", "--count", "HEAD"], cwd=ROOT, check=True, capture_output=True)
        names = touched(COMMITS)
    except (OSError, subprocess.CalledProcessError):
        return 0
    if int(counted.stdout) <= COMMITS:
        return 0
    if any(name == path or name.startswith(path + "/") for name in names for path in paths):
        return 0
    print(f"SKIPPED: the last {COMMITS} commits changed nothing under {' '.join(paths)}; make check runs this test")
    return 77


if __name__ == "__main__":
    sys.exit(main())
