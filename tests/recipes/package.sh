#!/usr/bin/env bash
# make package: the program runs from the unpacked folder, and no link or picture of its documentation is dead. With
# the tests it stays small enough to be sent, and check_gpu.sh starts from it.
#
#   tests/recipes/package.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
tarball=$(TESTS=1 scripts/package.sh "$1" | sed -n 's/: [0-9]* bytes$//p')
[ "$(stat -c %s "$tarball")" -lt $((64 << 20)) ]
tar -C "$place" -xzf "$tarball"
folder=$(echo "$place"/comera-*)
"$folder/bin/comera" --version > /dev/null
status=0
said=$(PARTS=none "$folder/check/check_gpu.sh" "$place" 2>&1) || status=$?
[ "$status" = 2 ]
grep -q 'there is no part none' <<< "$said"
python3 - "$folder" << 'END'
import pathlib, re, sys
root = pathlib.Path(sys.argv[1])
pages = sorted(root.rglob("*.md"))
links = [(page, target.split("#")[0])
         for page in pages
         for target in re.findall(r'\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"', page.read_text()) for target in target
         if target and not re.match(r"#|[a-z]+:", target)]
dead = [f"{page.relative_to(root)}: {target}" for page, target in links if not (page.parent / target).exists()]
if dead:
    sys.exit("dead links:\n" + "\n".join(dead))
assert len(links) > 30 and root / "docs/options/README.md" in pages, (len(pages), len(links))
END
