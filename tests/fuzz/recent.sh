#!/usr/bin/env bash
# Fuzzes every reader for a second, if a reader changed in the last commits.
#
#   tests/fuzz/recent.sh BUILD_FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/recent.py lib models third_party tests/fuzz cmake/Fuzz.cmake
tests/fuzz/run.sh "$1" 1
