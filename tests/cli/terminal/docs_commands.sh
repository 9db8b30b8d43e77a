#!/usr/bin/env bash
# Runs every command of README.md and of the user pages under docs/, page by page, in a folder of small files. A page
# passes when each of its commands ends with exit code 0. Commands run as they are printed, with three changes:
#   - COMERA_LAYERS and its neighbours make the presets small;
#   - `shortened` lowers step counts and vocabulary sizes;
#   - commands in `elsewhere` are left out, because a test of their own runs them.
. "$(dirname "$0")/../expect.sh"
root=$(cd "$tests/.." && pwd)
pages=(README.md docs/training.md docs/compression.md docs/export.md docs/formats.md docs/clicks.md docs/images.md)

shortened=(-e 's/--(steps) [0-9]+/--\1 6/' -e 's/--(late-after|save-every|eval-every) [0-9]+/--\1 3/'
  -e 's/--(vocab-size) [0-9]+/--\1 300/' -e 's/--(max-tokens) [0-9]+/--\1 4/')
# First words of the lines that need more than the program. Building and packages have separate tests (recipes: README's
# first command on a bare machine, Debian package, wordnet, minilm).
elsewhere=('make ' 'tar ' 'sudo apt ' 'recipes/wordnet.sh' 'recipes/minilm.sh')

mkdir bin world
ln -s "$(realpath "$COMERA")" bin/comera
export PATH=$work/bin:$PATH COMERA_LAYERS=2 COMERA_HIDDEN=64 COMERA_HEADS=4 COMERA_KEY_HEADS=2
export COMERA_INTERMEDIATE=128 COMERA_EMBEDDING_RANK=8
unset COMERA_DATA

# Writes the files that the pages name: labelled rows, text, scored pairs, stories, and two dense checkpoints.
make_world() {
  awk 'BEGIN {
    split("animal plant tool", name, " "); split("run grow cut", verb, " "); split("legs leaves edge", part, " ")
    split("water land wood metal", place, " "); print "label\ttext"; srand(1)
    for (i = 0; i < 240; ++i) {
      k = int(rand() * 3) + 1
      size = rand() < .5 ? "small" : "large"
      where = place[int(rand() * 4) + 1]
      printf "noun.%s\ta %s %s that can %s in the %s with %s\n", name[k], size, name[k], verb[k], where, part[k]
    }
  }' >rows.tsv
  head -n 201 rows.tsv >train.tsv
  { head -n 1 rows.tsv && tail -n 40 rows.tsv; } >dev.tsv
  tail -n +2 rows.tsv | cut -f 2 >text.txt
  paste <(head -n 30 text.txt) <(tail -n 30 text.txt) |
    awk 'BEGIN { print "sentence1\tsentence2\tscore" } { print $0 "\t" NR % 5 }' >pairs.tsv
  python3 - <<'IMAGES'
import pathlib, struct, zlib

def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

for part, count in (("train", 64), ("test", 20)):
    images = b"".join(bytes((x * (i % 3 + 1) * 9 + y) % 256 for y in range(28) for x in range(28)) for i in range(count))
    pathlib.Path(f"{part}-images-idx3-ubyte.gz").write_bytes(
        b"\0\0\x08\x03" + struct.pack(">3I", count, 28, 28) + images)
    pathlib.Path(f"{part}-labels-idx1-ubyte.gz").write_bytes(
        b"\0\0\x08\x01" + struct.pack(">I", count) + bytes(i % 3 for i in range(count)))
for shade in (40, 200):
    folder = pathlib.Path("pictures", f"shade{shade}")
    folder.mkdir(parents=True)
    for i in range(4):
        lines = (b"\0" + bytes([shade + i] * 8)) * 8
        folder.joinpath(f"{i}.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))
IMAGES
  echo '{"label": "click", "dense": ["price"], "categories": ["user", "item"]}' >schema.json
  awk 'BEGIN { print "click,price,user,item"; srand(2)
    for (i = 0; i < 400; ++i) print (rand() < .3) "," int(rand() * 50) ",u" int(rand() * 60) ",i" int(rand() * 40) }' >clicks.csv
  for ((i = 0; i < 8; ++i)); do head -n $((20 + i)) text.txt && echo; done >stories.txt
  head -n 40 text.txt >more-stories.txt

  local small=(--layers 2 --hidden 64 --intermediate 128 --vocabulary 400 --heads 4 --shards 1 --type F32)
  python3 "$root/scripts/make_checkpoint.py" all-MiniLM-L6-v2 --architecture bert "${small[@]}"
  { printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' && tr ' ' '\n' <text.txt | sort -u && seq 400; } |
    head -n 400 >all-MiniLM-L6-v2/vocab.txt
  "$COMERA" pretrain --model llama-6m --task clm --form dense --data stories.txt --tokenizer all-MiniLM-L6-v2 \
    --steps 2 --seq 32 --batch 2 --quiet -o run >/dev/null 2>&1 || fail "the dense decoder is trained"
  "$COMERA" export run -o stories15M --to safetensors --quiet >/dev/null || fail "the dense decoder is a plain folder"
  rm -r run rows.tsv
}

# The blocks ```sh of a page as one script, without the commands in `elsewhere`.
commands_of() {
  local left_out=()
  for first in "${elsewhere[@]}"; do left_out+=(-e "/^${first//\//\\/}/d"); done
  awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$root/$1" |
    sed -E "${left_out[@]}" "${shortened[@]}"
}

(cd world && make_world && [ "$failures" = 0 ]) || fail "the files that the pages name"
for page in "${pages[@]}"; do
  folder=$work/pages/$(basename "$page" .md)
  mkdir -p "$folder"
  cp -r world/. "$folder"
  commands_of "$page" >"$folder.sh"
  last=$page
  grep -q '^comera ' "$folder.sh" || fail "the page has commands"
  run bash -c 'cd "$1" && exec bash -euxo pipefail "$2"' - "$folder" "$folder.sh"
  [ "$code" = 0 ] && continue
  last="$page: $(grep '^+' .err | tail -n 1)"
  tail -n 20 .err >.tail && mv .tail .err
  expect_exit 0
done
# Relative links of the pages lead to files.
: >.out && : >.err && code=''
while IFS=: read -r page link; do
  last="link of $page"
  [ -e "$root/$(dirname "$page")/${link%%#*}" ] || fail "$page: $link exists"
done < <(cd "$root" && grep -oHE '(\]\(|src="|srcset=")[^)"#:]+' README.md CONTRIBUTING.md docs/*.md |
  sed -E 's/:.*[("]/:/')
# Every entry of `elsewhere` still occurs in a page.
for first in "${elsewhere[@]}"; do
  (cd "$root" && grep -qE "^$first" "${pages[@]}") || fail "a page has a line that begins with '$first'"
done
finish
