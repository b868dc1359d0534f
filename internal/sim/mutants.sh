#!/bin/sh
# Builds the simulators with each planted bug and shows which seed finds it. Each
# must be found within SEEDS seeds, or else by the scripts of internal/raft: a
# stale completion needs a log that is cut while a flush runs, and no node that
# flushes fetches meanwhile. Arguments name the mutants to try; else all.
cd "$(dirname "$0")/../.." || exit 1
all=$(git ls-files 'internal/*/mutant_*.go' | sed -n 's|.*/mutant_\(.*\)\.go|\1|p' | grep -v '_off$')
bin=$(mktemp -d) || exit 1
trap 'rm -rf "$bin"' EXIT
bad=0
for m in ${*:-$all}; do
	sim=./internal/sim/cmd
	[ -e "internal/group/mutant_$m.go" ] || [ -e "internal/statemachine/mutant_$m.go" ] && sim=./internal/sim/groups/cmd
	go build -tags "mutant_$m" -o "$bin/sim" "$sim" || exit 1
	found=$("$bin/sim" -first -seeds "${SEEDS:-2000}" | grep '^seed ' | head -1 | cut -c1-160)
	if [ -n "$found" ]; then
		echo "mutant_$m: $found"
	elif go test -tags "mutant_$m" ./internal/raft 2>/dev/null | grep -q -e '--- FAIL'; then
		echo "mutant_$m: caught by the scripts of internal/raft only"
	else
		echo "mutant_$m: NOT CAUGHT"
		bad=1
	fi
done
exit $bad
