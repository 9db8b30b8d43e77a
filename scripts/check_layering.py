#!/usr/bin/env python3
"""Checks the includes: a room includes only rooms below it, kernels/ none; CUDA conditions are in kernels/ only; every
CUDA kernel begins with begin_kernel().

The order is COMERA_ROOMS of cmake/Rooms.cmake. Kernels are below all rooms, tools above; tests may include everything.
"""

import re
import sys

from sources import CODE, read, report, sources

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
BACKENDS = ("kernels/cpu/", "kernels/cuda/", "kernels/reference/")
CUDA_CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*CUDA", re.MULTILINE)
KERNEL = re.compile(r"^(?!\s*#|\s*//).*__global__ ", re.MULTILINE)
BODY = re.compile(r"\s*\{\s*begin_kernel\(\);")


def order_of_rooms():
    rooms = re.search(r"set\(COMERA_ROOMS ([^)]*)\)", read("cmake/Rooms.cmake")).group(1).split()
    return ["kernels", *rooms, "tools", "tests"]


def room_of(path, order):
    return next((room for room in order if path.startswith(room + "/")), None)


def problem_with(path, included, order):
    own, other = room_of(path, order), room_of(included, order)
    if other is None:
        return (f"{path}: includes \"{included}\"; write it from the root of the repository, "
                "or <...> when it comes from outside")
    if own is None or own == "tests":
        return None
    if order.index(other) > order.index(own):
        return f"{path}: {own} includes \"{included}\" of {other}, which is above it"
    if own != "kernels" and other == "kernels" and included.startswith(BACKENDS):
        return f"{path}: includes \"{included}\"; a backend is reached through kernels/backend.h only"
    return None


def kernels_without_beginning(path, text):
    """Kernels of a file that read or write memory before the launch in front of them has ended (common/device.h)."""
    for kernel in KERNEL.finditer(text):
        at, depth = kernel.end(), 0
        while text[at] not in "{;" or depth > 0:  # parentheses of bounds and parameters
            depth += (text[at] == "(") - (text[at] == ")")
            at += 1
        if not BODY.match(text, at):
            head = " ".join(text[kernel.start():at].split())
            yield f"{path}: `{head[:100]}` does not begin with begin_kernel();"


def main():
    order = order_of_rooms()
    problems, includes = [], 0
    for path in sources(CODE):
        text = read(path)
        for included in INCLUDE.findall(text):
            includes += 1
            problem = problem_with(path, included, order)
            if problem:
                problems.append(problem)
        problems += kernels_without_beginning(path, text)
        if room_of(path, order) != "kernels":
            problems += [f"{path}: `{line.strip()}` belongs into kernels/ or a build file"
                         for line in CUDA_CONDITION.findall(text)]
    return report(problems, f"{includes} includes follow the order of the rooms")


if __name__ == "__main__":
    sys.exit(main())
