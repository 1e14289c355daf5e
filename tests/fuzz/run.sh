#!/bin/sh
# run.sh BUILD RUNS SEED [TARGET…]: so many cases of these fuzz targets, or of all; a line each that says what came of it.
# Cases that fail are kept in BUILD/tests/fuzz/TARGET/.
set -u
build=$(cd "$1" && pwd) runs=$2 seed=$3 failed=0
shift 3
for target in ${*:-Archive Graphs Inputs Ir Machines Plan Wire}; do
  folder=$build/tests/fuzz/$(echo $target | tr '[:upper:]' '[:lower:]')
  cd "$folder" || exit 1
  if "$build/bin/fuzz$target" -runs="$runs" -seed="$seed" -keep_seed=1 -max_len=16384 -timeout=60 >log 2>&1; then
    echo "$target: $runs cases: $(tail -n 1 log)"
  else
    failed=1
    echo "$target: failed: $(grep -m 1 -E 'broken promise|ERROR|runtime error' log); see $folder"
  fi
done
exit $failed
