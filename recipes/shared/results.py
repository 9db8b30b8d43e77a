#!/usr/bin/env python3
"""Tables of recipes: facts of a run of the recipe, sizes in words, Markdown tables, both files.

  results.py FOLDER --program COMERA --seeds N... [--version NAME=VALUE] [--setting NAME=VALUE] < TABLES

reads text with Markdown tables, prints it and writes it to FOLDER/results.md and, by columns, to FOLDER/results.json.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess

NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


def shown_bytes(count):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def output_of(*command):
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def machine():
    """Name of the processor, with the numbers that tell processors of one name apart, and the cores."""
    found = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    name = found.get("model name", platform.processor())
    return f"{name} (family {found.get('cpu family', '?')}, model {found.get('model', '?')}), {os.cpu_count()} cores"


def facts(program, seeds, versions=None, settings=None):
    """Versions, commit, machine and seeds; seeds are a number or words."""
    named = output_of(program, "--version").splitlines() or ["unknown"]
    built = [line.split()[1] for line in named if re.fullmatch(r" +commit +\S+", line)]
    about = {"versions": {"comera": named[0].removeprefix("comera "), "python": platform.python_version(),
                          "system": platform.platform(), **(versions or {})},
             "commit": built[0] if built else output_of("git", "rev-parse", "HEAD") or "unknown",
             "machine": machine(), "seeds": [int(seed) for seed in str(seeds).split()]}
    return {**about, "settings": settings} if settings else about


def table(columns, rows):
    """A Markdown table: the first column is text, the others are numbers in words."""
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def plain(cell):
    """A number, if the cell is one."""
    if not NUMBER.fullmatch(cell):
        return cell
    digits = cell.replace(",", "")
    return float(digits) if re.search("[.e]", digits) else int(digits)


def tables_of(lines):
    """Title and rows of each Markdown table; the title is the last line of text before it."""
    found, title, columns = [], "", None
    for line in lines:
        if not line.startswith("|"):
            columns = None
            title = line.strip("#= ").strip() or title
            continue
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        if columns is None:
            columns = cells
            found.append({"title": title, "rows": []})
        elif not re.fullmatch(r"[|:\- ]+", line):
            found[-1]["rows"].append({name: plain(cell) for name, cell in zip(columns, cells)})
    return found


def words_of(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {word}" for key, word in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def write(folder, about, lines, data):
    """results.md and results.json of a recipe; prints the tables."""
    text = "\n".join(lines) + "\n"
    (folder / "results.json").write_text(json.dumps({**about, **data}, indent=2) + "\n")
    head = "".join(f"- {key}: {words_of(value)}\n" for key, value in about.items())
    (folder / "results.md").write_text(head + "\n" + text)
    print(text, end="")
    print(f"{folder}/results.md and results.json have this with versions, commit, machine and seeds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seeds", required=True)
    for name in ("--version", "--setting"):
        parser.add_argument(name, action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    lines = open(0, encoding="utf-8").read().strip("\n").splitlines()
    tables = tables_of(lines)
    if not any(found["rows"] for found in tables):
        parser.error("there is no row of a Markdown table on stdin")
    versions, settings = (dict(pair.split("=", 1) for pair in pairs) for pairs in (given.version, given.setting))
    write(given.folder, facts(given.program, given.seeds, versions, settings), lines, {"tables": tables})


if __name__ == "__main__":
    main()
