#!/usr/bin/env python3
"""Checks lengths as ctags counts them: files below 500 lines, functions at most 60 (kernels 100), median at most 10."""

import re
import statistics
import subprocess
import sys

from sources import CODE, ROOT, read, report, sources

MAX_FILE, MAX_FUNCTION, MAX_KERNEL, MAX_MEDIAN = 499, 60, 100, 10
TEST_CASE = re.compile(r"^(TEST_CASE|SCENARIO|TEMPLATE_|SECTION|GIVEN|WHEN|THEN)")


def functions(paths):
    """Yields (path, name, lines) of every function body."""
    command = ["ctags", "--options=NONE", "--languages=C++,CUDA", "--map-CUDA=+.cuh", "--kinds-C++=f",
               "--kinds-CUDA=f", "--fields=+ne", "--langmap=C++:.cpp.h", "-f", "-", "--sort=no", *paths]
    tags = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for line in tags.splitlines():
        name, path, rest = line.split("\t", 2)
        begin, end = re.search(r"\tline:(\d+)", rest), re.search(r"\tend:(\d+)", rest)
        if begin and end and not TEST_CASE.match(name):
            yield path, name, int(end.group(1)) - int(begin.group(1)) + 1


def main():
    paths = sources(CODE)
    problems = []
    for path in paths:
        lines = read(path).count("\n")
        if lines > MAX_FILE:
            problems.append(f"{path}: {lines} lines, at most {MAX_FILE}: which room or file is missing?")
    lengths = []
    for path, name, lines in functions(paths):
        lengths.append(lines)
        limit = MAX_KERNEL if path.startswith("kernels/") else MAX_FUNCTION
        if lines > limit:
            problems.append(f"{path}: {name} has {lines} lines, at most {limit}")
    median = statistics.median(lengths) if lengths else 0
    if median > MAX_MEDIAN:
        problems.append(f"functions have a median of {median} lines, at most {MAX_MEDIAN}")
    return report(problems, f"{len(paths)} files, {len(lengths)} functions, median {median} lines, "
                            f"longest {max(lengths, default=0)}")


if __name__ == "__main__":
    sys.exit(main())
