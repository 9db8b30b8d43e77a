#!/usr/bin/env python3
"""Each rule script must find a planted breach: it runs on a copy of the tree with one breach."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("kernels", "lib", "models", "tools", "tests", "third_party", "cmake", "scripts", "recipes")

# script, file to write, its text, expected part of the script's output
BREACHES = [
    ("check_layering.py", "lib/core/breach.h", '#include "lib/train/loop.h"\n', "which is above it"),
    ("check_layering.py", "lib/core/breach.h", '#include "error.h"\n', "write it from the root"),
    ("check_layering.py", "kernels/breach.h", '#include "lib/core/error.h"\n', "which is above it"),
    ("check_layering.py", "lib/core/breach.h", '#include "kernels/cpu/common/simd.h"\n',
     "through kernels/backend.h only"),
    ("check_layering.py", "lib/core/breach.h", "#ifdef COMERA_CUDA\n#endif\n", "belongs into kernels/"),
    ("check_layering.py", "kernels/cuda/breach.cu",
     "__global__ void __launch_bounds__(f(1)) breach(int* x) {\n  *x = 1;\n  begin_kernel();\n}\n",
     "does not begin with begin_kernel()"),
    ("check_size.py", "lib/core/breach.h", "//\n" * 500, "500 lines, at most"),
    ("check_size.py", "lib/core/breach.cpp", "int breach() {\n" + "  work();\n" * 59 + "}\n", "breach has 61 lines"),
    ("check_stems.py", "kernels/cpu/breach.cpp", "", "no test of its stem"),
    ("check_words.py", "lib/core/breach.h", "// TO" + "DO: more\n", "is left open"),
    ("check_words.py", "docs/breach.md", "see /ho" + "me/me/notes\n", "names a folder"),
    ("check_words.py", "tests/core/breach_test.cpp", "CHECK(tr" + "ue);\n", "cannot fail"),
    ("check_promises.py", "SECURITY.md", "| a | `core: breach` |\n", "there is no test core: breach"),
    ("check_promises.py", "SECURITY.md", "| a | nothing |\n", "no test named for: a"),
    ("check_links.py", "docs/breach.md", "see [this](none.md)\n", "none.md is not there"),
    ("check_format.sh", "lib/core/breach.h", "int  a ;\n", "clang-format"),
    ("check_scripts.sh", "scripts/breach.sh", "#!/bin/sh\ncd $1\n", "SC2086"),
]


def copy_of_tree(target):
    for folder in FOLDERS:
        left_out = ["__pycache__", ".venv"]
        if folder in ("tests", "recipes"):  # shellcheck takes half a minute for all scripts; the planted one is enough
            left_out.append("*.sh")
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns(*left_out))
    shutil.copy(ROOT / ".clang-format", target)
    subprocess.run(["git", "init", "-q"], cwd=target, check=True)


def run(tree, script):
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    done = subprocess.run([str(tree / "scripts" / script)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_of_tree(tree)
        for script, path, text, expected in BREACHES:
            breach = tree / path
            breach.parent.mkdir(parents=True, exist_ok=True)
            breach.write_text(text)
            code, said = run(tree, script)
            breach.unlink()
            if code == 0 or pathlib.Path(path).name.split(".")[0] not in said or expected not in said:
                failures.append(f"{script} did not find what is wrong with {path} ({expected}):\n{said}")
    print("\n".join(failures) or f"{len(BREACHES)} breaches found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
