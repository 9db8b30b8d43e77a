# The parts that recipes share; a recipe sources this file from the root of the project.
# shellcheck shell=bash disable=SC2034  # it sets variables for the recipe
recipe=$(basename "$0")
comera=${COMERA:-build/comera}
export LC_ALL=C

# The comment at the top of the recipe.
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "recipes/$recipe"; }

# Ends with a message about what is missing.
missing() { echo "$recipe: $1; see recipes/$recipe --help" >&2 && exit 2; }

# start MOST ARGUMENTS...: reads [--help] [--smoke] [FOLDER [REST...]], at most MOST of them without the options. Sets
# smoke, seed, folder and the array rest. The folder by default: runs/NAME, or runs/NAME-smoke.
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
  folder=${1:-runs/$name}
  rest=("${@:2}")
}

require_program() {
  command -v "$comera" > /dev/null || { echo "$recipe: $comera is missing; run make" >&2 && exit 2; }
}

# Writes stdin to a file that appears when it is complete.
keep() { cat > "$1.partial" && mv "$1.partial" "$1"; }

# Runs a command with its output in a log; if it fails, prints the end of the log.
logged() { # NAME command...
  local name=$1
  shift
  "$@" > "$folder/$name.log" 2>&1 && return
  tail -n 5 "$folder/$name.log" >&2
  echo "$recipe: $name failed; see $folder/$name.log" >&2
  exit 1
}
