#!/usr/bin/env python3
"""Runs clang-tidy on every source file (--all) or on the files of the last N commits (--recent N), newest first.

    scripts/tidy.py --all|--recent N [--most FILES] [--jobs J] BUILD_FOLDER

BUILD_FOLDER contains compile_commands.json. --most limits the number of files. A file that is built several times
(kernels/cpu) is checked once. A file takes 3 to 9 seconds of one core; 60 files take less than three minutes on two.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

from sources import ROOT, sources, touched

TIDY = "clang-tidy-19"


def one_command_per_file(build):
    """Writes build/tidy/compile_commands.json with one entry per file, without GCC's precompiled headers, and returns
    the files."""
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        entry["command"] = re.sub(r" -include \S+/cmake_pch\.hxx", "", entry["command"])
        entries.setdefault(os.path.relpath(path, ROOT), entry)
    (build / "tidy").mkdir(exist_ok=True)
    (build / "tidy" / "compile_commands.json").write_text(json.dumps(list(entries.values())))
    return entries


def tidy(build, path):
    done = subprocess.run([TIDY, "--quiet", "-p", str(build / "tidy"), path], cwd=ROOT, capture_output=True, text=True)
    return path, done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true")
    which.add_argument("--recent", type=int, metavar="N")
    parser.add_argument("--most", type=int, metavar="FILES")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("build", type=pathlib.Path)
    options = parser.parse_args()

    built = one_command_per_file(options.build.resolve())
    wanted = sources((".cpp",)) if options.all else touched(options.recent)
    found = [path for path in wanted if path in built]
    files = found[: options.most]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for path, code, text in pool.map(lambda file: tidy(options.build.resolve(), file), files):
            if code:
                failed += 1
                print(f"{path}:\n{text}", flush=True)
    print(f"{len(files)} of {len(found)} files checked, {failed} with problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
