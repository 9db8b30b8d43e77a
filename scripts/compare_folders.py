#!/usr/bin/env python3
"""Compares two folders of compare_programs.sh, byte for byte except for times, versions and dates in text."""

import json
import pathlib
import re
import sys

# Measured times and rates, versions and dates.
VARYING_KEY = re.compile(r"ms|seconds|_s$|time|date|version|commit|hours|per_second|host|pid|peak|rss|cpu|"
                         r"metrics_bytes|^checksum$")
VARYING_TEXT = [
    re.compile(rb"\b\d+(?:\.\d+)?(?:e[-+]\d+)? ?(?:ms|s|min|h|tok/s|tokens/s|GFLOP/s)\b"),
    re.compile(rb"comera \d+\.\d+\.\d+[^\n<]*"),
    re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?Z?"),
    re.compile(rb"^# .*$", re.MULTILINE),  # help texts beside the options of a recipe
    re.compile(rb"\b[\d.]+$", re.MULTILINE),  # the column of times in a table
]
PICTURES = [re.compile(rb"<%b.*?</%b>" % (tag, tag.split()[0]), re.DOTALL)
            for tag in (b"style", b"svg", b'p class="origin"')]
TEXT = {".toml", ".txt", ".out", ".md", ""}
IGNORED = {"log.txt", "comera"}


def without_times(value):
    if isinstance(value, list):
        return [without_times(one) for one in value]
    if not isinstance(value, dict):
        return value
    if VARYING_KEY.search(str(value.get("name", ""))) and "value" in value:  # a series of measured times
        return value["name"]
    return {key: without_times(one) for key, one in value.items() if not VARYING_KEY.search(key)}


def content(path):
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(without_times(json.loads(data)), indent=1).encode()
    if path.suffix == ".jsonl":
        return json.dumps([without_times(json.loads(line)) for line in data.splitlines()]).encode()
    if path.suffix == ".html":  # its numbers are those of report.json
        for expression in PICTURES:
            data = expression.sub(b"", data)
        return re.sub(rb"[-+]?\d[\d.]*", b"~", data)
    if path.suffix in TEXT:
        for expression in VARYING_TEXT:
            data = expression.sub(b"~", data)
    return data


def files(root):
    return {path.relative_to(root): path for path in sorted(root.rglob("*"))
            if path.is_file() and path.name not in IGNORED}


def main():
    old, new = (files(pathlib.Path(root)) for root in sys.argv[1:3])
    problems = [f"{name}: only on one side" for name in sorted(old.keys() ^ new.keys())]
    for name in sorted(old.keys() & new.keys()):
        a, b = content(old[name]), content(new[name])
        if a != b:
            place = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            problems.append(f"{name}: differs at byte {place}: {a[max(0, place - 40):place + 40]!r} and "
                            f"{b[max(0, place - 40):place + 40]!r}")
    print("\n".join(problems) if problems else f"{len(old)} files are equal")
    return 1 if problems or not old else 0


if __name__ == "__main__":
    sys.exit(main())
