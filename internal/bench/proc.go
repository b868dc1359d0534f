package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux
// architecture Go runs on.
const clockTick = time.Second / 100

// Process reads what Linux counts for one process.
type Process struct {
	// PID is the process id.
	PID int
	// Root is where proc is mounted; empty means /proc. Tests set it.
	Root string
}

// Usage is a reading of a process's counters.
type Usage struct {
	// CPU is user plus system time of all threads, ended ones included.
	CPU time.Duration
	// RSSBytes is resident memory now, PeakRSSBytes its highest value since the
	// start or the last ResetPeak.
	RSSBytes, PeakRSSBytes int64
}

// path names a file of the process in proc.
func (p Process) path(name string) string {
	root := p.Root
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(root, strconv.Itoa(p.PID), name)
}

// Usage reads the counters.
func (p Process) Usage() (Usage, error) {
	stat, err := os.ReadFile(p.path("stat"))
	if err != nil {
		return Usage{}, fmt.Errorf("broker process %d: %w; is the pid right, and on this machine?", p.PID, err)
	}
	status, err := os.ReadFile(p.path("status"))
	if err != nil {
		return Usage{}, fmt.Errorf("broker process %d: %w", p.PID, err)
	}
	var u Usage
	if u.CPU, err = parseStat(stat); err != nil {
		return Usage{}, fmt.Errorf("broker process %d: %w", p.PID, err)
	}
	if exact, ok := p.clockCPU(); ok {
		u.CPU = exact
	}
	u.RSSBytes = statusBytes(status, "VmRSS")
	u.PeakRSSBytes = statusBytes(status, "VmHWM")
	return u, nil
}

// clockCPU reads the same time as stat has, in nanoseconds instead of steps of
// 10 ms, from the process's CPU clock: an idle server uses less than a step. False
// when there is none, or when proc is not the real one.
func (p Process) clockCPU() (time.Duration, bool) {
	if p.Root != "" {
		return 0, false
	}
	const schedClock = 2 // CPUCLOCK_SCHED: what clock_getcpuclockid(3) returns
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID<<3|schedClock), &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}

// ResetPeak makes the peak of resident memory start again from now. It needs
// the same rights as ptrace; without them the peak stays that of the whole life.
func (p Process) ResetPeak() error {
	return os.WriteFile(p.path("clear_refs"), []byte("5"), 0)
}

// parseStat takes utime and stime (fields 14 and 15) out of /proc/PID/stat. The
// command name, field 2, may hold spaces and parentheses, so fields are counted
// from the last one.
func parseStat(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("stat %q: no command name", stat)
	}
	fields := bytes.Fields(stat[end+1:])
	const utime, stime = 14 - 3, 15 - 3 // the first field here is field 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("stat %q: too few fields", stat)
	}
	var ticks int64
	for _, f := range [][]byte{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			return 0, fmt.Errorf("stat: CPU time %q is not a count", f)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// statusBytes finds "Name:  123 kB" in /proc/PID/status; 0 when it is not there.
func statusBytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte(name+":"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil || kib < 0 || kib > 1<<52 {
			return 0
		}
		return kib << 10
	}
	return 0
}

// ownCPU is the CPU time of this process, all threads.
func ownCPU() time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
