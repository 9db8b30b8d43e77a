# shellcheck shell=bash disable=SC2034
# Sourced after expect.sh: stops verbs by a signal.
kept=none  # what a verb may leave: a path as find prints it
limit=4000  # milliseconds: two seconds, and two more for a machine with other load

# interrupted SIGNAL SECONDS ANSWER COMMAND...: sends the signal this long after the program handles signals. If the
# program ends first, tries again with half the time.
interrupted() {
  local signal=$1 moment=$2 answer=$3 pid before after start took
  shift 3
  before=$(find . ! -path "$kept*" | sort)
  for attempt in 1 2 3 4 5; do
    last="$* (SIG$signal after $moment s)"
    "$@" <&0 >.out 2>.err &
    pid=$!
    until_ready $pid
    sleep "$moment"
    start=$(date +%s%N)
    kill -s "$signal" $pid 2>/dev/null
    wait $pid
    code=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ $code = 0 ] || break
    comm -13 <(echo "$before") <(find . ! -path "$kept*" | sort) | sort -r | xargs -r -d '\n' rm -rf
    moment=$(awk "BEGIN { print $moment / 2 }")
  done
  expect_exit "$([ "$signal" = INT ] && echo 130 || echo 143)"
  [ $took -lt $limit ] || fail "it ends within $limit ms; it took $took"
  expect_err "^$answer\$"
  grep -q 'error:\|bug' .err && fail "no error is printed"
  after=$(find . ! -path "$kept*" | sort)
  [ "$after" = "$before" ] || fail "no files are left: $(diff <(echo "$before") <(echo "$after"))"
}
# until_ready PID: waits until the program catches SIGINT, or has ended. Before PID becomes the program it is a copy of
# this shell, which catches SIGINT too, loses the signal and lets the program start.
until_ready() {
  while kill -0 "$1" 2>/dev/null && { [ "/proc/$1/exe" -ef /proc/$$/exe ] || ! catches "$1"; }; do sleep 0.01; done
}
# SIGINT is bit 1 of the signals that the process catches.
catches() { [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null || echo 0) & 2)) != 0 ]; }
answer='stopping; again to quit now'
