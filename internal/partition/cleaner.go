package partition

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
)

// cleaner compacts the logs of a store: log.cleaner.threads goroutines, each of
// which takes the log that needs it most (Kafka's LogCleaner).
type cleaner struct {
	store    *Store
	settings atomic.Pointer[CleanerSettings]

	mu      sync.Mutex
	wake    chan struct{} // closed and replaced when settings change
	threads []bool        // which goroutines run
	paceTo  kafka.Mono    // when what was read and written so far is paid for

	choosing sync.Mutex // two threads must not take the same log
}

// cleanRun is a pass over one partition.
type cleanRun struct {
	abort chan struct{} // closed: it must end
	ended chan struct{} // closed: it touches no file any more
	once  sync.Once
}

// wait waits for the end of a pass that was aborted; nil has ended.
func (r *cleanRun) wait() {
	if r != nil {
		<-r.ended
	}
}

// abortCleaning ends the pass under way, if there is one, and gives it to be
// waited for. Called with mu held; waited for without.
func (p *Partition) abortCleaning() *cleanRun {
	if p.cleaning != nil {
		p.cleaning.once.Do(func() { close(p.cleaning.abort) })
	}
	return p.cleaning
}

// errCleaningOver says that a pass was called off.
var errCleaningOver = errors.New("cleaning was called off")

// configure takes in new settings. Passes under way go on with the memory they
// have; the pace changes at once. Logs that were set aside are tried again.
func (c *cleaner) configure(s *CleanerSettings) {
	if old := c.settings.Load(); old != nil && *old == *s {
		return
	}
	c.settings.Store(s)
	if s.Threads < 1 {
		c.store.opts.Log.Warn("the log cleaner is off: compacted topics grow without bound; set log.cleaner.threads to 1 or more")
	}
	c.store.each(func(p *Partition) {
		p.mu.Lock()
		p.uncleanable = false
		p.mu.Unlock()
	})
	c.mu.Lock()
	c.paceTo = 0
	close(c.wake)
	c.wake = make(chan struct{})
	c.mu.Unlock()
}

// start starts the goroutines that the settings ask for. Those beyond end by
// themselves. Called with the store's mu held, before it is closed.
func (c *cleaner) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.settings.Load().Threads {
		if i == len(c.threads) {
			c.threads = append(c.threads, false)
		}
		if !c.threads[i] {
			c.threads[i] = true
			c.store.work.Add(1)
			go c.run(i)
		}
	}
}

// leaves tells whether the i-th goroutine is one too many, and takes it off the
// list; if it is not, what it must wait for settings with.
func (c *cleaner) leaves(i int) (chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i >= c.settings.Load().Threads {
		c.threads[i] = false
		return nil, true
	}
	return c.wake, false
}

func (c *cleaner) run(i int) {
	defer c.store.work.Done()
	for {
		wake, leave := c.leaves(i)
		if leave {
			return
		}
		if c.cleanOne() {
			select {
			case <-c.store.stop:
				return
			default:
				continue
			}
		}
		timer := time.NewTimer(max(time.Duration(c.settings.Load().BackoffMs)*time.Millisecond, time.Millisecond))
		select {
		case <-c.store.stop:
			timer.Stop()
			return
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// task is a pass that was begun.
type task struct {
	p    *Partition
	log  *seglog.Log
	pass *seglog.Cleaning
	run  *cleanRun
	dirt seglog.Dirt
}

// cleanOne cleans the log that needs it most; false if none does, or it failed.
func (c *cleaner) cleanOne() bool {
	t := c.choose(c.store.opts.Now().Wall)
	if t == nil {
		return false
	}
	start := time.Now()
	err := c.clean(t)
	t.p.mu.Lock()
	t.p.cleaning = nil
	retain := t.p.retentionDue
	t.p.mu.Unlock()
	close(t.run.ended)
	if retain {
		c.store.retain(t.p, c.store.opts.Now().Wall)
	}
	if err != nil {
		c.failed(t, err)
		return false
	}
	st := t.pass.Stats
	c.store.opts.Log.Info("log cleaned", "partition", t.p.tp, "from", t.dirt.First, "to", t.pass.End(), "dirty", t.dirt.DirtyBytes,
		"read", st.ReadBytes+st.MapBytes, "written", st.WrittenBytes, "records", st.RecordsRead, "kept", st.RecordsKept,
		"without key", st.KeylessRecords, "keys", st.Keys, "memory", st.MapMemory, "took", time.Since(start))
	t.p.dir.cleanerMoved.Store(true)
	_ = c.store.checkpointCleaner() // logged; costs another pass after a restart
	return true
}

// choose begins a pass over the log that is overdue or the filthiest; nil if
// none is dirty enough (LogCleanerManager.grabFilthiestCompactedLog).
func (c *cleaner) choose(now kafka.WallMs) *task {
	c.choosing.Lock()
	defer c.choosing.Unlock()
	var best *Partition
	var most seglog.Dirt
	c.store.each(func(p *Partition) {
		if !p.Settings().Compact {
			return
		}
		d, ok := c.dirt(p, now)
		if ok && (best == nil || more(d, most)) {
			best, most = p, d
		}
	})
	if best == nil {
		return nil
	}
	best.mu.Lock()
	defer best.mu.Unlock()
	log := best.cleanable()
	if log == nil {
		return nil
	}
	// Measured again: it may have been truncated while the others were looked at.
	d, err := log.Dirt(now, kafka.Offset(best.lso.Load()))
	if err != nil || !d.Due(log.Config()) {
		return nil
	}
	pass, err := log.PrepareCleaning(d, now)
	if err != nil {
		c.troubled(best, err)
		return nil
	}
	best.cleaning = &cleanRun{abort: make(chan struct{}), ended: make(chan struct{})}
	return &task{p: best, log: log, pass: pass, run: best.cleaning, dirt: d}
}

func more(a, b seglog.Dirt) bool {
	if a.Overdue != b.Overdue {
		return a.Overdue
	}
	return a.Ratio() > b.Ratio()
}

// cleanable gives the log if a pass over it may begin. Called with mu held.
func (p *Partition) cleanable() *seglog.Log {
	if p.closed || p.broken != nil || p.uncleanable || p.cleaning != nil || p.dir.failed.Load() {
		return nil
	}
	return p.log.Load()
}

// dirt tells how dirty a log is, if that is enough to clean it.
func (c *cleaner) dirt(p *Partition, now kafka.WallMs) (seglog.Dirt, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.cleanable()
	if log == nil {
		return seglog.Dirt{}, false
	}
	jobs, err := log.ResumeSwap()
	c.store.removals.addJobs(jobs)
	if err != nil {
		c.troubled(p, err)
		return seglog.Dirt{}, false
	}
	if log.RecoveryPoint() < p.base {
		c.store.flushSoon(p) // only what is durable is cleaned
	}
	d, err := log.Dirt(now, kafka.Offset(p.lso.Load()))
	if d.Invalid != kafka.NoOffset {
		c.store.opts.Log.Warn("cleaner checkpoint lies beyond the log's end and counts as unset", "partition", p.tp, "checkpoint", d.Invalid, "end", log.EndOffset())
	}
	if err != nil {
		c.setAside(p, err)
		return d, false
	}
	return d, d.Due(log.Config())
}

// clean runs a pass.
func (c *cleaner) clean(t *task) error {
	s := c.settings.Load()
	err := t.pass.Map(seglog.CleanLimits{
		MapBytes: s.MapBytes, LoadFactor: s.LoadFactor, BufferBytes: s.BufferBytes,
		Pace: func(n int) error { return c.pace(t.run, n) },
	})
	if err != nil {
		return err
	}
	for {
		group, err := t.pass.Next()
		if err != nil {
			return err
		}
		if group == nil {
			break
		}
		if err := c.swap(t, group); err != nil {
			return err
		}
	}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	return t.log.CleaningDone(t.pass)
}

func (c *cleaner) swap(t *task, group *seglog.Cleaned) error {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	if t.p.log.Load() != t.log || t.p.closed || t.p.dir.failed.Load() {
		return errors.Join(errCleaningOver, group.Discard())
	}
	jobs, err := t.log.Swap(group, c.store.opts.Now().Wall)
	c.store.removals.addJobs(jobs)
	return err
}

// pace waits until n more bytes may be read or written, and ends the pass when
// it is called off.
func (c *cleaner) pace(run *cleanRun, n int) error {
	select {
	case <-c.store.stop:
		return errCleaningOver
	case <-run.abort:
		return errCleaningOver
	default:
	}
	c.mu.Lock()
	wake := c.wake // before the settings are looked at
	rate := c.settings.Load().BytesPerSecond
	if rate <= 0 || rate > maxPace {
		c.mu.Unlock()
		return nil
	}
	now := c.store.opts.Now().Mono
	c.paceTo = max(c.paceTo, now).Add(time.Duration(min(float64(n)/rate, maxPause) * float64(time.Second)))
	wait := c.paceTo.Sub(now)
	c.mu.Unlock()
	if wait < time.Millisecond {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wake: // at another pace from now on
		return nil
	case <-c.store.stop:
	case <-run.abort:
	}
	return errCleaningOver
}

// maxPace is a rate, in bytes per second, that no disk reaches.
const maxPace = 1 << 50

// maxPause is the longest time, in seconds, that one piece is waited for.
const maxPause = 24 * 3600

// failed decides what an error of a pass means.
func (c *cleaner) failed(t *task, err error) {
	t.p.mu.Lock()
	gone := t.p.closed || t.p.log.Load() != t.log
	offline := !gone && t.log.Offline() != nil
	t.p.mu.Unlock()
	switch {
	case offline:
		t.p.dir.fail(err)
	case errors.Is(err, errCleaningOver), errors.Is(err, seglog.ErrChanged), gone && errors.Is(err, fs.ErrNotExist):
	default:
		t.p.mu.Lock()
		c.troubled(t.p, err)
		t.p.mu.Unlock()
	}
}

// troubled decides whose trouble an error is. Called with the partition's mu held.
func (c *cleaner) troubled(p *Partition, err error) {
	switch {
	case vfs.Exhausted(err): // the next pass may find room
		p.dir.full(err)
	case diskTrouble(err):
		p.dir.fail(err)
	default: // damage, or what this log holds or asks for: the others are well
		c.setAside(p, err)
	}
}

// diskTrouble tells whether an error comes from the system.
func diskTrouble(err error) bool {
	var corrupt *seglog.CorruptError
	var errno syscall.Errno
	return errors.As(err, &errno) && !errors.As(err, &corrupt)
}

// setAside leaves a log alone that cannot be cleaned, so that the others are.
// Called with mu held.
func (c *cleaner) setAside(p *Partition, err error) {
	p.uncleanable = true
	c.store.opts.Log.Error("log cannot be cleaned and is set aside: it grows, and is served as before; it is tried again after a restart or a change of its settings or of log.cleaner.*",
		"partition", p.tp, "error", err)
}

// checkpointCleaner writes cleaner-offset-checkpoint, which tells up to where
// each log has been cleaned.
func (s *Store) checkpointCleaner() error {
	return s.writeCheckpoint(cleanerFile, func(d *directory) *atomic.Bool { return &d.cleanerMoved },
		func(_ *Partition, log *seglog.Log) (kafka.Offset, bool) { return log.CleanedTo(), log.CleanedTo() > 0 },
		func(m *marks) kafka.Offset { return m.cleaner })
}
