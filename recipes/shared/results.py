"""Tables of recipes: facts of a run of the recipe, sizes in words, Markdown tables, both files."""

import json
import pathlib
import platform
import subprocess


def shown_bytes(count):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def output_of(*command):
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def facts(program, **seed):
    """Version, commit, machine, and seed=1 or seeds=text."""
    return {"program": output_of(program, "--version").splitlines()[0], "commit": output_of("git", "rev-parse", "HEAD"),
            "machine": processor(), "system": platform.platform(), **seed}


def table(columns, rows):
    """A Markdown table: the first column is text, the others are numbers in words."""
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def write(folder, about, lines, data):
    """results.md and results.json of a recipe; prints the tables."""
    text = "\n".join(lines) + "\n"
    (folder / "results.json").write_text(json.dumps({**about, **data}, indent=2) + "\n")
    (folder / "results.md").write_text("".join(f"{key}: {value}\n" for key, value in about.items()) + "\n" + text)
    print(text, end="")
    print(f"{folder}/results.md and results.json have this with version, commit, machine and seed")
