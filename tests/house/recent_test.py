#!/usr/bin/env python3
"""Tests scripts/recent.py on a history of 25 commits: a changed path, an old one, an unknown one, and no history."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / "scripts").mkdir()
        for name in ("recent.py", "sources.py"):
            shutil.copy(SCRIPTS / name, tree / "scripts")

        def expect(code, what, *paths, **more):
            environment = {name: value for name, value in os.environ.items() if name != "COMERA_ALL"} | more
            done = subprocess.run([tree / "scripts/recent.py", *paths], env=environment, capture_output=True, text=True)
            if done.returncode != code or (code == 77) != done.stdout.startswith("SKIPPED: "):
                failures.append(f"{what}: status {done.returncode}, not {code}\n{done.stdout}{done.stderr}")

        for room in ("old", "older", "ne", "new"):
            (tree / room).mkdir()
            (tree / room / "file.cpp").write_text("")
        expect(0, "without a history", "old")
        subprocess.run([*GIT, "init", "-q"], cwd=tree, check=True)
        for number in range(25):
            (tree / "new" / "file.cpp").write_text(f"{number}\n")
            subprocess.run([*GIT, "add", "-A"], cwd=tree, check=True)
            subprocess.run([*GIT, "commit", "-qm", "c"], cwd=tree, check=True)
            if number == 10:
                expect(0, "a short history", "old")
        expect(77, "an old path", "old", "older")
        expect(77, "a folder whose name begins that of a changed one", "ne")
        expect(0, "a changed file", "new/file.cpp")
        expect(0, "a changed path", "old", "new")
        expect(0, "all tests are wanted", "old", COMERA_ALL="1")
        expect(1, "an unknown path", "none")
        (tree / "older" / "file.cpp").write_text("changed\n")
        expect(0, "a change that is not committed", "older")
        (tree / "ne" / "more.cpp").write_text("")
        expect(0, "a file that git does not know", "ne")
        (tree / "old" / "file.cpp").unlink()
        expect(0, "a file that is removed", "old")
    print("\n".join(failures) or "every answer is right")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
