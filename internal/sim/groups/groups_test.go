package groups

import (
	"os"
	"strconv"
	"testing"
)

func envInt(t *testing.T, name string, def uint64) uint64 {
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, v, err)
	}
	return n
}

// The checkers run over whatever the seeds bring about (HC-171). Every seed runs
// twice and must give the same trace.
func TestSim(t *testing.T) {
	first, n := envInt(t, "SEED", 1), envInt(t, "SEEDS", 10)
	events := int(envInt(t, "EVENTS", 10000))
	var sum Counts
	for seed := first; seed < first+n; seed++ {
		cfg := Config{Seed: seed, Events: events}
		a := Run(cfg)
		if a.Violation != nil {
			t.Fatal(a.Violation)
		}
		if b := Run(cfg); b.Hash != a.Hash {
			t.Fatalf("seed %d: two runs, two traces: %x and %x", seed, a.Hash, b.Hash)
		}
		sum.Add(a.Counts)
	}
	t.Logf("%+v", sum)
	if err := sum.Minimums(); err != nil {
		t.Error(err)
	}
}
