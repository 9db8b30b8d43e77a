# shellcheck shell=bash disable=SC2034
# Sourced behind expect.sh: verbs that are stopped by a signal.
kept=none # what a verb may leave: a path as find prints it
limit=4000 # milliseconds: two seconds, and as much again for a machine with other work

# interrupted SIGNAL SECONDS ANSWER COMMAND...: so many seconds after it is ready to be stopped.
interrupted() {
  local signal=$1 moment=$2 answer=$3 pid before after start took
  shift 3
  last="$* (SIG$signal after $moment s)"
  before=$(find . ! -path "$kept*" | sort)
  "$@" <&0 >.out 2>.err &
  pid=$!
  until_ready $pid
  sleep "$moment"
  kill -0 $pid 2>/dev/null || fail "it still works after $moment s"
  start=$(date +%s%N)
  kill -s "$signal" $pid
  wait $pid
  code=$?
  took=$((($(date +%s%N) - start) / 1000000))
  expect_exit "$([ "$signal" = INT ] && echo 130 || echo 143)"
  [ $took -lt $limit ] || fail "it ends within $limit ms; it took $took"
  expect_err "^$answer\$"
  grep -q 'error:\|bug' .err && fail "no error is told"
  after=$(find . ! -path "$kept*" | sort)
  [ "$after" = "$before" ] || fail "nothing is left: $(diff <(echo "$before") <(echo "$after"))"
}
# until_ready PID: it is there to be stopped.
until_ready() {
  while kill -0 "$1" 2>/dev/null && ! catches "$1"; do sleep 0.01; done
}
# SIGINT is bit 1 of the signals that the process catches.
catches() { [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null || echo 0) & 2)) != 0 ]; }
answer='stopping; again to quit now'
