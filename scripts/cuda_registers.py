#!/usr/bin/env python3
"""Registers and spilled bytes of every CUDA kernel, from the output of ptxas (-Xptxas -v), compared with a table.

  scripts/cuda_registers.py --release R LOG             compares the build log with kernels/cuda/registers.tsv; fails on
                                                        differences
  scripts/cuda_registers.py --release R --update LOG    writes the table

The table is for one release of nvcc. With another release only spills are compared.
"""

import argparse
import re
import subprocess
import sys

from sources import ROOT

TABLE = ROOT / "kernels" / "cuda" / "registers.tsv"
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
FILE = re.compile(r"_\d+_([a-z_]+?)_cu_")
RELEASE = re.compile(r"release (\d+\.\d+)")


def short(names):
    """Demangled names with the name of their file, without our namespaces and without parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    plain = []
    for mangled, name in zip(names, text.splitlines()):
        file = FILE.search(mangled)
        name = name.replace("comera::kernels::cuda::", "").replace("(anonymous namespace)::", "").removeprefix("void ")
        depth, end = 0, len(name)
        for i, letter in enumerate(name):
            depth += (letter == "<") - (letter == ">")
            if letter == "(" and depth == 0:
                end = i
                break
        plain.append((file.group(1) + ": " if file else "") + name[:end].replace("comera::kernels::", ""))
    return plain


def kernels_of(log):
    """{(architecture, kernel): (registers, spilled bytes)}"""
    found, entry, spilled = [], None, 0
    for line in log.splitlines():
        if match := ENTRY.search(line):
            entry, spilled = match.groups(), 0
        elif match := SPILLS.search(line):
            spilled = int(match.group(2)) + int(match.group(3))
        elif (match := USED.search(line)) and entry:
            found.append((*entry, int(match.group(1)), spilled))
            entry = None
    names = short([mangled for mangled, *_ in found])
    return {(architecture, name): (registers, spilled)
            for name, (_, architecture, registers, spilled) in zip(names, found)}


def read_table():
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines[2:]]
    kernels = {(architecture, kernel): (int(registers), int(spilled))
               for architecture, kernel, registers, spilled in rows}
    return RELEASE.search(lines[0]).group(1), kernels


def write_table(release, kernels):
    rows = [f"{architecture}\t{kernel}\t{registers}\t{spilled}"
            for (architecture, kernel), (registers, spilled) in sorted(kernels.items())]
    head = [f"# nvcc release {release}; written by scripts/cuda_registers.py --update",
            "architecture\tkernel\tregisters\tspilled_bytes"]
    TABLE.write_text("\n".join(head + rows) + "\n", encoding="utf-8")


def allocated(registers):
    """A GPU gives registers to a thread in units of 8. Builds of one source may differ by a register."""
    return (registers + 7) // 8 * 8


def compare(release, kernels):
    known_release, known = read_table()
    problems = [f"{kernel}: is not in {TABLE.name}" for architecture, kernel in kernels.keys() - known.keys()]
    problems += [f"{kernel}: is in {TABLE.name} and was not compiled"
                 for architecture, kernel in known.keys() - kernels.keys()]
    for key in kernels.keys() & known.keys():
        (registers, spilled), (old, old_spilled) = kernels[key], known[key]
        if spilled != old_spilled or (release == known_release and allocated(registers) != allocated(old)):
            problems.append(f"{key[1]}: {registers} registers, {spilled} bytes spilled; the table has {old} and "
                            f"{old_spilled}")
    for problem in sorted(problems):
        print(problem)
    differ = f"; {len(problems)} differ from the table" if problems else ""
    print(f"{len(kernels)} kernels, at most {max(registers for registers, _ in kernels.values())} registers, "
          f"{sum(spilled > 0 for _, spilled in kernels.values())} that spill{differ}")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--release", required=True, help="of nvcc, e.g. 13.0")
    parser.add_argument("log")
    options = parser.parse_args()
    with open(options.log, encoding="utf-8", errors="replace") as log:
        kernels = kernels_of(log.read())
    if not kernels:
        print(f"{options.log} holds no report of ptxas; compile with -Xptxas -v", file=sys.stderr)
        return 2
    if options.update:
        write_table(options.release, kernels)
        return 0
    return compare(options.release, kernels)


if __name__ == "__main__":
    sys.exit(main())
