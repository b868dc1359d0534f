package partition

import (
	"errors"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/seglog"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// removals are files and folders to be deleted later.
type removals struct {
	mu      sync.Mutex
	folders []removal
	jobs    []seglog.RemovalJob
}

type removal struct {
	path string
	due  kafka.WallMs
}

func (r *removals) add(path string, due kafka.WallMs) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folders = append(r.folders, removal{path, due})
}

func (r *removals) addJobs(jobs []seglog.RemovalJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, jobs...)
}

// due takes what may be deleted now.
func (r *removals) due(now kafka.WallMs) (folders []string, jobs []seglog.RemovalJob) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := r.folders[:0]
	for _, f := range r.folders {
		if f.due <= now {
			folders = append(folders, f.path)
		} else {
			keep = append(keep, f)
		}
	}
	r.folders = keep
	later := r.jobs[:0]
	for _, j := range r.jobs {
		if j.DueMs <= now {
			jobs = append(jobs, j)
		} else {
			later = append(later, j)
		}
	}
	r.jobs = later
	return folders, jobs
}

// waiting tells whether anything is to be deleted.
func (r *removals) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.folders)+len(r.jobs) > 0
}

// chore is something that the keeper does from time to time, less often while
// idle says that there is nothing to do.
type chore struct {
	every time.Duration
	next  kafka.Mono
	do    func(now kafka.Now)
	idle  func() bool
}

// The keeper looks for deletions and flush.ms every second, or every ten when
// it knows of none.
const (
	keeperTick = time.Second
	keeperIdle = 10 * time.Second
)

func (c *chore) wait() time.Duration {
	if c.idle != nil && c.idle() {
		return max(c.every, keeperIdle)
	}
	return c.every
}

// chores lists the work behind: retention, checkpoints, deletion, expiry.
func (s *Store) chores(start kafka.Mono) []*chore {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	list := []*chore{
		{every: ms(s.opts.RetentionCheckMs), next: start.Add(ms(s.opts.InitialTaskDelayMs)), do: s.retainAll},
		{every: ms(s.opts.HighCheckpointMs), do: func(kafka.Now) { s.checkpointHigh() }},
		{every: ms(s.opts.FlushCheckpointMs), do: func(kafka.Now) { s.checkpointRecovery() }},
		{every: ms(s.opts.StartCheckpointMs), do: func(kafka.Now) { s.checkpointStart(); s.checkpointCleaner() }},
		{every: 10 * time.Minute, do: s.expireProducers},
		{every: keeperTick, do: s.removeDue, idle: func() bool { return !s.removals.waiting() }},
		{every: keeperTick, do: s.flushDue, idle: func() bool { return !s.flushByTime.Load() }},
		{every: keeperTick, do: s.remakeAll, idle: func() bool { return !s.unmade.Load() }},
		{every: keeperTick, do: s.flushAgain, idle: func() bool { return !s.unflushed.Load() }},
	}
	for _, c := range list[1:] {
		c.next = start.Add(c.every)
	}
	return list
}

// runDue does the chores that are due and tells when the next one is.
func runDue(chores []*chore, now kafka.Now) kafka.Mono {
	first := kafka.Never
	for _, c := range chores {
		if c.next <= now.Mono {
			c.do(now)
			c.next = now.Mono.Add(c.wait())
		}
		first = min(first, c.next)
	}
	return first
}

// keep does the chores when they are due.
func (s *Store) keep() {
	defer s.work.Done()
	chores := s.chores(s.opts.Now().Mono)
	timer := time.NewTimer(keeperTick)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		}
		first := runDue(chores, s.opts.Now())
		timer.Reset(max(first.Sub(s.opts.Now().Mono), time.Millisecond))
	}
}

// retainAll deletes what retention gives up.
func (s *Store) retainAll(now kafka.Now) {
	s.each(func(p *Partition) { s.retain(p, now.Wall) })
}

// retain deletes what retention gives up of one partition. Of a log that is being
// cleaned it is put off to the end of the pass, which it would make void.
func (s *Store) retain(p *Partition, now kafka.WallMs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log.Load()
	if p.closed || log == nil || p.dir.failed.Load() {
		return
	}
	if p.retentionDue = p.cleaning != nil; p.retentionDue {
		return
	}
	before := log.StartOffset()
	jobs, err := log.Retain(now, p.state.HighWatermark())
	s.removals.addJobs(jobs)
	if err != nil {
		s.opts.Log.Error("retention failed", "partition", p.tp, "error", err)
		if log.Offline() != nil {
			p.dir.fail(err)
		}
	}
	if log.StartOffset() != before {
		p.base = log.ActiveBase()
		p.state.LogStart(log.StartOffset())
		p.publish(log)
		p.dir.startMoved.Store(true)
	}
}

func (s *Store) expireProducers(now kafka.Now) {
	s.each(func(p *Partition) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if log := p.log.Load(); log != nil && !p.closed {
			log.Producers().Expire(now.Wall, s.env.ProducerExpirationMs.Load())
		}
	})
}

func (s *Store) removeDue(now kafka.Now) {
	folders, jobs := s.removals.due(now.Wall)
	for _, f := range folders {
		if err := s.opts.FS.RemoveAll(f); err != nil {
			s.opts.Log.Error("cannot remove a deleted partition", "folder", f, "error", err)
		}
	}
	for _, j := range jobs {
		if err := j.Run(); err != nil {
			s.opts.Log.Error("cannot remove deleted segments", "error", err)
		}
	}
}

// flushDue flushes the partitions whose flush.ms has passed.
func (s *Store) flushDue(now kafka.Now) {
	s.each(func(p *Partition) {
		wait := p.Settings().FlushMs
		if wait == never {
			return
		}
		p.mu.Lock()
		log, since := p.log.Load(), p.lastFlushMs
		p.mu.Unlock()
		if log != nil && since != 0 && int64(now.Wall-since) >= wait {
			_ = p.flushTo(log.EndOffset()) // flushed has seen to a failure
		}
	})
}

// flushAgain flushes the partitions for which there was no room before. One that
// finds none yet speaks for its directory: others may be on a disk that has.
func (s *Store) flushAgain(kafka.Now) {
	if !s.unflushed.Swap(false) {
		return
	}
	noRoom := map[*directory]bool{}
	s.each(func(p *Partition) {
		p.mu.Lock()
		log, due := p.log.Load(), p.unflushed && !p.closed
		p.mu.Unlock()
		if due && log != nil && !noRoom[p.dir] {
			noRoom[p.dir] = vfs.Exhausted(p.flushTo(log.EndOffset()))
		}
	})
	for _, still := range noRoom {
		if still {
			s.unflushed.Store(true)
		}
	}
}

// flushSoon asks for the segments that have been rolled to be made durable.
func (s *Store) flushSoon(p *Partition) {
	select {
	case s.flushes <- p:
	default:
	}
}

// flusher makes rolled segments durable, so that recovery after a crash need
// only look at the newest one.
func (s *Store) flusher() {
	defer s.work.Done()
	for {
		select {
		case <-s.stop:
			return
		case p := <-s.flushes:
			p.mu.Lock()
			base := p.base
			p.mu.Unlock()
			_ = p.flushTo(base)
		}
	}
}

// writeCheckpoint writes one offset file of each directory for which changed
// says so.
func (s *Store) writeCheckpoint(name string, changed func(*directory) *atomic.Bool, offset func(*Partition, *seglog.Log) (kafka.Offset, bool), kept func(*marks) kafka.Offset) error {
	s.checkpointing.Lock()
	defer s.checkpointing.Unlock()
	lists := map[*directory]logdir.Checkpoint{}
	discards := map[*directory]uint64{}
	for _, d := range s.dirs {
		if !d.failed.Load() && changed(d).Swap(false) {
			lists[d] = logdir.Checkpoint{}
			discards[d] = d.discardCount()
		}
	}
	if len(lists) == 0 {
		return nil
	}
	s.each(func(p *Partition) {
		list, ok := lists[p.dir]
		if !ok {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		var o kafka.Offset
		if log := p.log.Load(); log != nil {
			if o, ok = offset(p, log); !ok {
				return
			}
		} else if p.kept == nil {
			return
		} else if o = kept(p.kept); o == 0 {
			return
		}
		lists[p.dir] = append(list, logdir.CheckpointEntry{TopicPartition: p.tp, Offset: o})
	})
	var errs []error
	for d, list := range lists {
		sort.Slice(list, func(i, j int) bool {
			a, b := list[i].TopicPartition, list[j].TopicPartition
			return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
		})
		if err := logdir.WriteCheckpoint(s.opts.FS, d.Path, name, list); err != nil {
			changed(d).Store(true)
			s.opts.Log.Error("cannot write a checkpoint", "dir", d.Path, "file", name, "error", err)
			errs = append(errs, err)
		} else {
			d.rewritten(name, discards[d])
		}
	}
	return errors.Join(errs...)
}

// forget sees to it that no checkpoint file has marks of an older partition of
// this name.
func (s *Store) forget(d *directory, tp kafka.TopicPartition) error {
	if !d.isStale(tp) {
		return nil
	}
	return errors.Join(s.checkpointRecovery(), s.checkpointStart(), s.checkpointHigh(), s.checkpointCleaner())
}

func (s *Store) checkpointHigh() error {
	return s.writeCheckpoint(highFile, func(d *directory) *atomic.Bool { return &d.appended },
		func(p *Partition, _ *seglog.Log) (kafka.Offset, bool) { return p.state.HighWatermark(), true },
		func(m *marks) kafka.Offset { return m.high })
}

func (s *Store) checkpointRecovery() error {
	return s.writeCheckpoint(recoveryFile, func(d *directory) *atomic.Bool { return &d.recoveryMoved },
		func(_ *Partition, log *seglog.Log) (kafka.Offset, bool) { return log.RecoveryPoint(), true },
		func(m *marks) kafka.Offset { return m.recovery })
}

func (s *Store) checkpointStart() error {
	return s.writeCheckpoint(startFile, func(d *directory) *atomic.Bool { return &d.startMoved },
		func(_ *Partition, log *seglog.Log) (kafka.Offset, bool) {
			// As in Kafka, only starts that the segments do not tell.
			return log.StartOffset(), log.StartOffset() > log.Segments()[0].BaseOffset
		}, func(m *marks) kafka.Offset { return m.start })
}

// Close stops the background work and closes every log; then, if all went
// well, each directory gets its checkpoints and the marker of a clean stop.
// Nobody may use the partitions any more.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	if !s.loaded { // nothing was touched, and what is there is not known
		s.Deadlines.Close()
		return nil
	}
	close(s.stop)
	s.work.Wait()
	s.Deadlines.Close()
	dirty := s.closeLogs()
	var errs []error
	for _, d := range s.dirs {
		d.appended.Store(true)
		d.recoveryMoved.Store(true)
		d.startMoved.Store(true)
		d.cleanerMoved.Store(true)
	}
	for d := range dirty {
		d.appended.Store(false) // its checkpoints stay as they are
		d.recoveryMoved.Store(false)
		d.startMoved.Store(false)
		d.cleanerMoved.Store(false)
	}
	errs = append(errs, s.checkpointHigh(), s.checkpointRecovery(), s.checkpointStart(), s.checkpointCleaner())
	for _, d := range s.dirs {
		if d.failed.Load() || dirty[d] || s.damaged(d) || errors.Join(errs...) != nil {
			continue
		}
		err := logdir.WriteCleanShutdown(s.opts.FS, d.Path, kafka.BrokerEpoch(s.epoch.Load()))
		if err == nil {
			err = logdir.RemoveBootMark(s.opts.FS, d.Path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// bulkClose is from how many logs on one sync of the file system is cheaper
// than several syncs per log.
const bulkClose = 200

// closeLogs closes the logs side by side and tells which directories are not
// in order.
func (s *Store) closeLogs() map[*directory]bool {
	n := 0
	s.each(func(*Partition) { n++ })
	bulk := n >= bulkClose
	work := make(chan *Partition)
	dirty := map[*directory]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range max(s.opts.LoadWorkers, 1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for p := range work {
				if err := p.close(bulk); err != nil {
					s.opts.Log.Error("cannot close a log", "partition", p.tp, "error", err)
					mu.Lock()
					dirty[p.dir] = true
					mu.Unlock()
				}
			}
		}()
	}
	s.each(func(p *Partition) { work <- p })
	close(work)
	wg.Wait()
	for _, d := range s.dirs {
		if !bulk || d.failed.Load() {
			continue
		}
		if err := s.opts.FS.SyncAll(d.Path); err != nil {
			s.opts.Log.Error("cannot sync a log directory", "dir", d.Path, "error", err)
			dirty[d] = true
		}
	}
	return dirty
}

func (p *Partition) close(bulk bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.view.Store(&view{leader: kafka.NoNode, epoch: kafka.NoEpoch})
	log := p.log.Load()
	switch {
	case log == nil || p.dir.failed.Load():
		return nil
	case bulk:
		return log.CloseUnsynced()
	}
	return log.Close()
}
