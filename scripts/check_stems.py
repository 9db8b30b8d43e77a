#!/usr/bin/env python3
"""Checks the file names of ops: a kernel in kernels/cpu or kernels/cuda has kernels/STEM.h, a reference and a test."""

import pathlib
import sys

from sources import ROOT, report, sources

# Files of a backend that are not ops: the table of ops, and the loop that measures the peak of an instruction set.
PARTS = {"backend", "multiply_adds"}


# Services of a GPU besides ops.
SERVICES = "kernels/cuda/gpu/"


def stems_of(room, suffixes):
    return {pathlib.Path(path).stem: path for path in sources(suffixes, (room,)) if not path.startswith(SERVICES)}


def main():
    tests = {pathlib.Path(path).stem for path in sources((".cpp",), ("tests",))}
    problems = []
    kernels = {**stems_of("kernels/cpu", (".cpp",)), **stems_of("kernels/cuda", (".cu",))}
    for stem, path in sorted(kernels.items()):
        if f"{stem}_test" not in tests:
            problems.append(f"{path}: no test of its stem, {stem}_test.cpp under tests/kernels")
        if stem in PARTS:
            continue
        for needed in (f"kernels/{stem}.h", f"kernels/reference/{stem}.h"):
            if not (ROOT / needed).is_file():
                problems.append(f"{path}: {needed} is missing")
    return report(problems, f"{len(kernels)} kernels have header, reference and test")


if __name__ == "__main__":
    sys.exit(main())
