#!/bin/sh
# Runs a program of tests; the exit status is 77, for "skipped", where it skips all of them.
output=$("$@")
status=$?
printf '%s\n' "$output"
case "$status $output" in
0*"PASSED  ] 0 tests"*) exit 77 ;;
esac
exit $status
