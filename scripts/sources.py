"""The source files of the project, for the check scripts in this folder."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("kernels", "lib", "models", "tools", "tests", "third_party")
# Also reads a checkout that belongs to another user, as in many containers.
GIT = ("git", "-c", "safe.directory=*")
CODE = (".cpp", ".h", ".cu", ".cuh")


def sources(suffixes=CODE, rooms=ROOMS):
    """Paths relative to the root, sorted."""
    found = (path for room in rooms for path in (ROOT / room).rglob("*"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.suffix in suffixes and path.is_file())


def touched(commits):
    """Paths that the working tree or the last commits changed, made or removed, newest first."""
    new = [*GIT, "ls-files", "--others", "--exclude-standard"]
    tree = [*GIT, "diff", "--name-only", "HEAD"]
    log = [*GIT, "log", f"-{commits}", "--format=", "--name-only"]
    names = (subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
             for command in (new, tree, log))
    return list(dict.fromkeys(name for listing in names for name in listing.splitlines()))


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def report(problems, summary):
    """Prints the problems, or the summary if there are none; returns the exit code."""
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems" if problems else summary)
    return 1 if problems else 0
