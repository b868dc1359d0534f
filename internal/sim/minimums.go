package sim

import "fmt"

// Minimums checks that a run has seen enough of everything: a simulation in
// which nothing happens proves nothing. Per million events.
func (c Counts) Minimums() error {
	for _, m := range []struct {
		name    string
		have    int
		atLeast int
	}{
		{"elections", c.Elections, 1000},
		{"commits", c.Commits, 20000},
		{"truncations", c.Truncations, 50},
		{"snapshots", c.Snapshots, 100},
		{"crashes", c.Crashes, 1000},
	} {
		if got := perMillion(m.have, c.Events); got < m.atLeast {
			return fmt.Errorf("only %d %s per million events, want %d", got, m.name, m.atLeast)
		}
	}
	return nil
}

func perMillion(n, events int) int {
	if events == 0 {
		return 0
	}
	return int(int64(n) * 1_000_000 / int64(events))
}

// String gives the counts per million events.
func (c Counts) String() string {
	p := func(n int) int { return perMillion(n, c.Events) }
	return fmt.Sprintf("per million events: elections %d commits %d truncations %d snapshots %d voter-changes 0 crashes %d",
		p(c.Elections), p(c.Commits), p(c.Truncations), p(c.Snapshots), p(c.Crashes))
}
