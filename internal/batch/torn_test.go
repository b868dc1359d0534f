package batch

import (
	"bytes"
	"testing"
)

// A client may leave bytes behind its batch that are less than another one:
// Kafka cuts them off, and so do we. Fails if Produced takes every rest for a
// second batch.
func TestTornRestIsCutOff(t *testing.T) {
	b := produced(t, None, someRecords(3)...)
	for _, n := range []int{1, PrefixSize, len(b) - 1} {
		var w Workspace
		sent := append(bytes.Clone(b), b[:n]...)
		got, r := w.Produced(sent, 13, lenient(), testNow)
		if r.Code != 0 || len(got) != len(b) {
			t.Errorf("%d bytes behind the batch: %s, %d bytes stored; want %d", n, r.Code, len(got), len(b))
		}
	}
	// A magic of the future is corruption, an old one a request of the wrong kind.
	future := bytes.Clone(b)
	future[posMagic] = 3
	var w Workspace
	if _, r := w.Produced(future, 13, lenient(), testNow); r.Code != 2 {
		t.Errorf("magic 3: %s, want CORRUPT_MESSAGE", r.Code)
	}
}
