#!/usr/bin/env python3
"""Checks that every promise of SECURITY.md names at least one test, and that every named test exists."""

import re
import sys

from sources import ROOT, read, report

ROW = re.compile(r"^\| (?!promise|---)(.*) \| (.*) \|$", re.MULTILINE)
CASE = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')  # a long name is several literals
NAME = re.compile(r"`([a-z]+): ([^`]+)`")


def cases():
    """Names of all tests that ctest runs, found in the sources."""
    found = set()
    for path in ROOT.glob("tests/**/*_test.cpp"):
        for literals in CASE.findall(path.read_text(encoding="utf-8")):
            found.add((path.relative_to(ROOT).parts[1], "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))))
    for path in ROOT.glob("tests/cli/*/*.sh"):
        found.add(("cli", path.stem))
    for path in ROOT.glob("tests/*/tests.cmake"):
        found.update(re.findall(r'NAME "([a-z]+): ([^"]+)"', path.read_text(encoding="utf-8")))
    return found


def main():
    known, problems, promises = cases(), [], 0
    for promise, tests in ROW.findall(read("SECURITY.md")):
        promises += 1
        named = NAME.findall(tests)
        if not named:
            problems.append(f"SECURITY.md: no test named for: {promise}")
        problems += [f"SECURITY.md: there is no test {room}: {name}"
                     for room, name in named if (room, name) not in known]
    if promises == 0:
        problems.append("SECURITY.md: has no table of promises")
    return report(problems, f"{promises} promises have their tests")


if __name__ == "__main__":
    sys.exit(main())
