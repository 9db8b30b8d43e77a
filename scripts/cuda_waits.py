#!/usr/bin/env python3
"""Checks the machine code of a library for GPUs of compute capability 9.0 and newer: every kernel waits for the launch in
front of it (begin_kernel() of kernels/cuda/common/device.h) before it reads or writes device memory.

  scripts/cuda_waits.py LIBRARY NVDISASM     third_party/cuda.sh --nvdisasm FOLDER finds or fetches one

A compiler may move a read of memory that it takes for constant over the wait, which no source shows.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

import cuda_registers
import cuda_sass

OF_CUDA, LEAST = 190, 90  # e_machine of ELF; the architecture that can wait


def programs_of(library):
    """(architecture, bytes) of each machine program in the library: ELF files inside the file."""
    at = 0
    while (at := library.find(b"\x7fELF\x02\x01", at)) >= 0:
        head = library[at:at + 64]
        if len(head) == 64 and struct.unpack_from("<H", head, 18)[0] == OF_CUDA:
            segments, sections, flags = struct.unpack_from("<QQI", head, 32)
            segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", head, 54)
            size = max(segments + segment_size * segment_count, sections + section_size * section_count)
            yield flags >> 8 & 0xFF, library[at:at + size]
        at += 4


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    library, nvdisasm = sys.argv[1:]
    kernels, problems = 0, []
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.cubin"
        for architecture, code in programs_of(pathlib.Path(library).read_bytes()):
            if architecture < LEAST:
                continue
            program.write_bytes(code)
            text = subprocess.run([nvdisasm, "-c", program], capture_output=True, text=True, check=True).stdout
            functions = cuda_sass.functions_of(text)
            kernels += len(functions)
            late = [name for name, lines in functions.items() if not cuda_sass.waits_first(lines)]
            problems += [f"{name} for sm_{architecture}: reads or writes before begin_kernel()"
                         for name in cuda_registers.short(late)]
    if kernels == 0:
        print(f"{library} has no kernels for sm_{LEAST} and newer", file=sys.stderr)
        return 2
    print("\n".join(problems) or f"{kernels} kernels wait for the launch before them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
