# The parts that recipes share; a recipe sources this file from the root of the project.
# shellcheck shell=bash disable=SC2034  # it sets variables for the recipe
recipe=$(basename "$0")
comera=${COMERA:-build/comera}
threads=${THREADS:-$(nproc)}
versions=() settings=() # NAME=VALUE...: versions of other programs, and choices of this run, in results.json
export LC_ALL=C

# The comment at the top of the recipe.
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "recipes/$recipe"; }

# Ends with a message about what is missing.
missing() { echo "$recipe: $1; see recipes/$recipe --help" >&2 && exit 2; }

# start MOST ARGUMENTS...: reads [--help] [--smoke] [FOLDER [REST...]], at most MOST of them without the options. Sets
# smoke, seed, folder, named (the user gave the folder) and the array rest. The folder by default: runs/NAME, or
# runs/NAME-smoke.
start() {
  local most=$1 name=${recipe%.sh}
  shift
  seed=${SEED:-1}
  smoke=false
  [ "${1:-}" != --help ] || { usage && exit 0; }
  [ "${1:-}" != --smoke ] || { smoke=true && shift; }
  if [ $# -gt "$most" ] || [[ "${1:-}" == -* ]]; then
    usage >&2
    exit 2
  fi
  ! "$smoke" || name+=-smoke
  named=true
  [ $# -gt 0 ] || named=false
  folder=${1:-runs/$name}
  rest=("${@:2}")
  trap 'forget_last $?' EXIT
}

# learn_glosses FOLDER options...: definitions of WordNet and a vocabulary that is learned from them, unless FOLDER has
# them. The options are of `tokenizer train`.
learn_glosses() {
  [ ! -f "$1/tokenizer/vocab.txt" ] || return 0
  recipes/wordnet.sh "$1"
  "$comera" tokenizer train --data "$1/train.tsv" "${@:2}" -o "$1/tokenizer"
}

# Leaves of the run FOLDER/NAME its report alone, as FOLDER/NAME.json.
keep_report() { # NAME
  mv "$folder/$1/report.json" "$folder/$1.json"
  rm -r "${folder:?}/$1"
}

# kept_report NAME options...: trains a model into FOLDER/NAME and leaves its report alone, unless that is there.
kept_report() {
  [ ! -s "$folder/$1.json" ] || return 0
  rm -rf "${folder:?}/$1"
  logged "$1" "$comera" pretrain "${@:2}" --threads 1 --save-every 1000000 --log-every 50 -o "$folder/$1"
  keep_report "$1"
}

# begin command...: runs it in the background, as soon as fewer than `workers` (WORKERS) others run. end_all: waits for
# all of them. A command that fails ends the recipe.
workers=${WORKERS:-$(nproc)} busy=0
begin() {
  if [ "$busy" -lt "$workers" ]; then busy=$((busy + 1)); else wait -n; fi
  "$@" < /dev/null &
}
end_all() {
  for (( ; busy > 0; busy--)); do wait -n; done
}

# How a user gets a file of COMERA_DATA that several recipes read.
source_of() { # FILE
  case $1 in
    text/gutenberg16.txt.zst) echo "English books as plain text, such as 16 of gutenberg.org" ;;
    text/c4_sample.txt.zst) echo "web pages as plain text, such as 1,500 of huggingface.co/datasets/allenai/c4" ;;
    text/tinystories_sample.txt.zst)
      echo "stories as plain text, such as 800 KB of huggingface.co/datasets/roneneldan/TinyStories"
      ;;
    text/wordnet_glosses.txt.zst) echo "lines 'lemma: definition; \"example\"' of Debian's package wordnet-base" ;;
    mnli/*.tsv.zst)
      echo "columns premise, hypothesis, label of MultiNLI 1.0 (recipes/mnli.sh --help says how to make it)"
      ;;
    glue/*/dev.tsv.zst) echo "dev.tsv of that task of gluebenchmark.com/tasks" ;;
    checkpoints/all-MiniLM-L6-v2/*) echo "of huggingface.co/sentence-transformers/all-MiniLM-L6-v2" ;;
    checkpoints/stories15M/*)
      echo "stories15M of huggingface.co/karpathy/tinyllamas as a Hugging Face folder of Llama with its tokenizer.model"
      ;;
  esac
}

# Nouns of WordNet, from NOUNS or from Debian's package.
need_nouns() {
  nouns=${NOUNS:-/usr/share/wordnet/data.noun}
  [ -r "$nouns" ] ||
    { echo "$recipe: $nouns cannot be read; install it with: apt-get install wordnet-base" >&2 && exit 2; }
}

# Ends with the sources of the files that COMERA_DATA lacks.
need_data() { # FILE...
  local file absent=()
  command -v zstd > /dev/null ||
    { echo "$recipe: zstd is missing; third_party/install.sh recipes installs it" >&2 && exit 2; }
  for file in "$@"; do
    [ -n "${COMERA_DATA:-}" ] && [ -r "$COMERA_DATA/$file" ] || absent+=("$file")
  done
  [ ${#absent[@]} -gt 0 ] || return 0
  if [ -n "${COMERA_DATA:-}" ]; then
    echo "$recipe: COMERA_DATA=$COMERA_DATA lacks files. Get them like this (.zst is compressed by zstd):"
  else
    echo "$recipe: COMERA_DATA is not set. Get these files, then set it to their folder (.zst is compressed by zstd):"
  fi >&2
  for file in "${absent[@]}"; do echo "  $file: $(source_of "$file")" >&2; done
  exit 2
}

# The program, and Python for the tables at the end. Says if the folder has results of another program or machine,
# because a second call keeps them.
require_program() {
  command -v "$comera" > /dev/null || { echo "$recipe: $comera is missing; run make" >&2 && exit 2; }
  command -v python3 > /dev/null ||
    { echo "$recipe: python3 is missing; third_party/install.sh recipes installs it" >&2 && exit 2; }
  mkdir -p "$folder"
  local made_by
  made_by=$("$comera" --version)
  [ -e "$folder/made-by.txt" ] || echo "$made_by" > "$folder/made-by.txt"
  [ "$made_by" = "$(cat "$folder/made-by.txt")" ] ||
    echo "$recipe: $folder has results of another program or machine ($folder/made-by.txt); name another FOLDER to" \
      "make all of them anew" >&2
}

# PyTorch, for recipes that measure it beside the program. Sets python, and its version in the results.
need_torch() {
  local version
  python=${PYTHON:-build/venv-torch/bin/python}
  if ! version=$("$python" -c 'import numpy, torch; print(torch.__version__)' 2> /dev/null); then
    echo "$recipe: $python has no PyTorch. Install it (5 GB), or set PYTHON to a python with torch and numpy:" >&2
    echo "  python3 -m venv build/venv-torch && build/venv-torch/bin/pip install torch numpy" >&2
    exit 2
  fi
  versions+=(torch="$version")
}

# Writes stdin to a file that appears when it is complete. It cannot see if the command before the pipe failed, so a
# recipe that ends with an error forgets the file that was kept last.
keep() {
  cat > "$1.partial" && [ -s "$1.partial" ] && mv "$1.partial" "$1" && printf '%s\n' "$1" > "$folder/kept-last"
}
forget_last() { # EXIT_CODE
  # 1 and 2 come with a message; another code can come from a command that prints nothing, such as 141 from a pipe.
  [ "$1" -le 2 ] || echo "$recipe: a command ended with exit code $1; see the logs in $folder" >&2
  [ -e "$folder/kept-last" ] || return 0
  [ "$1" = 0 ] || rm -f "$(cat "$folder/kept-last")"
  rm -f "$folder/kept-last"
}

# Runs a command with its output in a log; if it fails, prints the end of the log.
logged() { # NAME command...
  local name=$1
  shift
  "$@" > "$folder/$name.log" 2>&1 && return
  tail -n 5 "$folder/$name.log" >&2
  echo "$recipe: $name failed; see $folder/$name.log" >&2
  exit 1
}

# A run that ended by itself. One that was stopped by a signal has a report too.
finished() { # RUN
  [ -e "$1/report.json" ] && ! grep -q '"end": "signal"' "$1/report.json"
}

# Writes a page with the table of runs, charts of quality against bytes, memory and time, and the ranks of the weights.
# Runs that have not ended are left out.
page_of_runs() { # FILE RUN...
  local run ended=()
  for run in "${@:2}"; do ! finished "$run" || ended+=("$run"); done
  [ ${#ended[@]} -eq 0 ] || "$comera" inspect --runs "${ended[@]}" --format html | keep "$1"
}

# Runs a command that writes Markdown tables to stdout. Prints them, and writes them with versions, commit, machine and
# seeds to results.md and results.json. Seeds are words in one argument.
publish() { # SEEDS command...
  local seeds=$1
  shift
  "$@" > "$folder/tables.partial"
  python3 recipes/shared/results.py "$folder" --program "$comera" --seeds "$seeds" \
    "${versions[@]/#/--version=}" "${settings[@]/#/--setting=}" < "$folder/tables.partial"
  rm "$folder/tables.partial"
}
