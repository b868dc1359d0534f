package partition

import (
	"fmt"

	"moldau/internal/kafka"
	"moldau/internal/seglog"
	"moldau/internal/vfs"
)

// marks are what the checkpoint files say about a damaged log. They stay in the
// files while it is offline: with the recovery point forgotten, the next start
// would take the damage for a torn tail and cut it off, with all behind it.
type marks struct{ recovery, high, start, cleaner kafka.Offset }

// breakDown takes one partition offline, because what is stored is damaged.
func (p *Partition) breakDown(err error, kept marks) {
	p.mu.Lock()
	first := p.broken == nil
	p.broken = err
	if p.kept == nil {
		p.kept = &kept
	}
	p.log.Store(nil)
	p.mu.Unlock()
	if first {
		p.store.opts.Log.Error("partition goes offline; the others serve. Restore its file from a replica or a backup, or delete the topic", "partition", p.tp, "error", err)
	}
}

// marksOf gives the marks of a log that served until now.
func (p *Partition) marksOf(log *seglog.Log) marks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return marks{recovery: log.RecoveryPoint(), high: p.state.HighWatermark(), start: log.StartOffset(), cleaner: log.CleanedTo()}
}

// damaged tells whether a partition of the directory is offline. Then the stop
// leaves no mark of a clean one: the next start would not look.
func (s *Store) damaged(d *directory) (yes bool) {
	s.each(func(p *Partition) {
		p.mu.Lock()
		defer p.mu.Unlock()
		yes = yes || p.dir == d && p.kept != nil
	})
	return yes
}

// renameOffline renames the folder of a partition whose log is not open, so that
// a new one of the same name finds nothing of it.
func (s *Store) renameOffline(p *Partition, to string) error {
	from := p.dir.Path + "/" + p.tp.String()
	if _, err := s.opts.FS.Stat(from); err != nil {
		return err
	}
	if err := s.opts.FS.Rename(from, to); err != nil {
		return err
	}
	return s.opts.FS.SyncDir(p.dir.Path)
}

// createFailed takes a new partition offline: until there is room, or, with its
// directory, for good.
func (s *Store) createFailed(p *Partition, err error) {
	p.mu.Lock()
	p.broken = err
	p.mu.Unlock()
	if !vfs.Exhausted(err) {
		p.dir.fail(fmt.Errorf("create %s: %w", p.tp, err))
		return
	}
	p.dir.full(err)
	p.unmade = true
	s.unmade.Store(true)
}

// remakeAll creates the partitions for which there was no room before.
func (s *Store) remakeAll(now kafka.Now) {
	if !s.unmade.Swap(false) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	noRoom := false
	s.each(func(p *Partition) {
		if p.unmade && !noRoom {
			noRoom = !s.remake(p, now.Wall)
		}
	})
	if noRoom {
		s.unmade.Store(true)
	}
}

func (s *Store) remake(p *Partition, now kafka.WallMs) bool {
	log, err := s.createLog(p.topic, p.tp, p.dir, p.Settings(), now)
	if err != nil {
		s.createFailed(p, err)
		return !vfs.Exhausted(err)
	}
	p.mu.Lock()
	p.unmade, p.broken = false, nil
	a := p.state.Assignment()
	p.adopt(log, 0)
	p.mu.Unlock()
	p.assign(a, now)
	return true
}
