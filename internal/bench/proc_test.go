package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestProcessUsage(t *testing.T) {
	got, err := Process{PID: 123, Root: "testdata/proc"}.Usage()
	want := Usage{CPU: (1234 + 567) * 10 * time.Millisecond, RSSBytes: 61440 << 10, PeakRSSBytes: 65536 << 10}
	// Fails if fields are counted from the first ')' or the first space.
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestClockAndOwnCPUAgree(t *testing.T) {
	before := ownCPU()
	got, ok := Process{PID: os.Getpid()}.clockCPU()
	after := ownCPU()
	if !ok {
		t.Skip("this kernel does not give the CPU clock of a process by its id")
	}
	const slack = 20 * time.Millisecond // rusage is scaled from ticks
	if got < before-slack || got > after+slack {
		t.Errorf("clock says %v, rusage %v to %v", got, before, after)
	}
	usage, err := Process{PID: os.Getpid()}.Usage()
	if err != nil || usage.CPU < got || usage.RSSBytes <= 0 || usage.PeakRSSBytes < usage.RSSBytes/2 {
		t.Errorf("usage %+v, %v", usage, err)
	}
}

func TestProcessUsageSaysWhatIsWrong(t *testing.T) {
	for pid, want := range map[int]string{124: "too few fields", 125: "is the pid right"} {
		_, err := Process{PID: pid, Root: "testdata/proc"}.Usage()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pid %d: %v, want %q", pid, err, want)
		}
	}
}

func TestParseStatRefusesWhatIsNotACount(t *testing.T) {
	for _, stat := range []string{"", "1 x S", "1 (x) S 1 2 3 4 5 6 7 8 9 10 -5 7 1", "1 (x) S 1 2 3 4 5 6 7 8 9 10 5 y 1"} {
		if cpu, err := parseStat([]byte(stat)); err == nil {
			t.Errorf("parseStat(%q) = %v, no error", stat, cpu)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		_, _ = parseStat(stat)
		if n := statusBytes(stat, "VmRSS"); n < 0 {
			t.Errorf("a size of %d", n)
		}
	})
}
