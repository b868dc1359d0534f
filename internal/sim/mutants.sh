#!/bin/sh
# Builds the simulator with each planted bug and checks that a checker names a
# seed that finds it. A bug that the simulator cannot reach must be found by
# the core's scripts.
cd "$(dirname "$0")/../.." || exit 1
bad=0
for m in skip_fsync old_epoch_commit vote_twice stale_grant no_divergence stale_completion; do
	found=$(go run -tags "mutant_$m" ./internal/sim/cmd -seeds "${SEEDS:-100}" 2>/dev/null | grep '^seed ' | head -1)
	if [ -n "$found" ]; then
		echo "mutant_$m: caught by the simulator: $found"
	elif go test -tags "mutant_$m" ./internal/raft 2>/dev/null | grep -q -e '--- FAIL'; then
		echo "mutant_$m: caught by the scripts of internal/raft"
	else
		echo "mutant_$m: NOT CAUGHT"
		bad=1
	fi
done
exit $bad
