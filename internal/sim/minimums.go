package sim

import "fmt"

// Counts is what happened in a run.
type Counts struct {
	Events, Elections, Commits, Truncations, Snapshots, SnapshotFetches, VoterChanges, Fences, Crashes int
}

// rows lists the counts other than Events, with what a run must have of each
// per million events: a simulation in which nothing happens proves nothing.
func (c *Counts) rows() []countRow {
	return []countRow{
		{"elections", &c.Elections, 500},
		{"commits", &c.Commits, 12000},
		{"truncations", &c.Truncations, 100},
		{"snapshots", &c.Snapshots, 3000},
		{"snapshot-fetches", &c.SnapshotFetches, 300},
		{"voter-changes", &c.VoterChanges, 200},
		{"fences", &c.Fences, 200},
		{"crashes", &c.Crashes, 1000},
	}
}

type countRow struct {
	name    string
	have    *int
	atLeast int
}

// Add sums the counts of another run.
func (c *Counts) Add(o Counts) {
	c.Events += o.Events
	other := o.rows()
	for i, r := range c.rows() {
		*r.have += *other[i].have
	}
}

// Minimums checks that enough of everything has happened.
func (c Counts) Minimums() error {
	for _, r := range c.rows() {
		if got := perMillion(*r.have, c.Events); got < r.atLeast {
			return fmt.Errorf("only %d %s per million events, want %d", got, r.name, r.atLeast)
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
	s := "per million events:"
	for _, r := range c.rows() {
		s += fmt.Sprintf(" %s %d", r.name, perMillion(*r.have, c.Events))
	}
	return s
}
