#!/usr/bin/env python3
"""Relative links of Markdown pages name files that are there.

usage: check_links.py [FOLDER]      default: the tracked pages of the project; a folder: all of its pages
"""

import pathlib
import re
import subprocess
import sys

from sources import GIT, ROOT, report

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def tracked_pages():
    names = subprocess.run([*GIT, "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split()]


def dead_links(page):
    links = LINK.findall(CODE.sub("", page.read_text(encoding="utf-8")))
    return [f"{page}: {link} is not there" for link in links
            if ":" not in link and not (page.parent / link).exists()]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    pages = sorted(pathlib.Path(folder).rglob("*.md")) if folder else tracked_pages()
    return report([dead for page in pages for dead in dead_links(page)], f"{len(pages)} pages have their links")


if __name__ == "__main__":
    sys.exit(main())
