#!/usr/bin/env python3
"""Checks that no source has open work, no test is disabled, and no file names a folder of one person's machine."""

import re
import subprocess
import sys

from sources import GIT, ROOT, read, report

OPEN = re.compile(r"\b(TODO|FIXME|XXX|not implemented|placeholder|for now|stub)\b", re.IGNORECASE)
IDLE_TEST = re.compile(r"SUCCEED\(|(?:REQUIRE|CHECK)\(\s*true\s*\)|\[\.\]|\[!mayfail\]|\[!hide\]")
OWN_FOLDER = re.compile(r"(?<![\w.$}])/(?:home|root|work|workspace|mnt|Users)/\w")
LARGE = 1 << 20
SELF = "scripts/check_words.py"


def tracked():
    listing = subprocess.run([*GIT, "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in listing.stdout.split("\0") if path and (ROOT / path).is_file() and path != SELF]


def problems_in(path):
    if (ROOT / path).stat().st_size > LARGE:
        return [f"{path}: larger than 1 MiB; data and products stay outside the repository"]
    try:
        lines = read(path).splitlines()
    except UnicodeDecodeError:
        return []
    rules = [(OWN_FOLDER, "names a folder of one machine")]
    if path.startswith(("kernels/", "lib/", "models/", "tools/", "recipes/", "third_party/")):
        rules.append((OPEN, "is left open"))
    if path.startswith("tests/"):
        rules.append((IDLE_TEST, "is a test that cannot fail"))
    return [f"{path}:{number}: {what}: {line.strip()[:120]}"
            for number, line in enumerate(lines, 1) for rule, what in rules if rule.search(line)]


def main():
    paths = tracked()
    problems = [problem for path in paths for problem in problems_in(path)]
    return report(problems, f"{len(paths)} files read")


if __name__ == "__main__":
    sys.exit(main())
