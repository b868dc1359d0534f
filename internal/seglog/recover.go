package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/producerstate"
	"moldau/internal/vfs"
)

// recover scans the segments from the recovery point on; see Open.
func (ld *loader) recover() (kafka.Offset, error) {
	segs := ld.opened()
	first := max(floorSegment(segs, ld.opt.RecoveryPoint), 0)
	if err := ld.producersTo(segs[first].base); err != nil {
		return 0, err
	}
	end := segs[first].base
	for i := first; i < len(segs); i++ {
		s := segs[i]
		upper := kafka.Offset(1<<63 - 1)
		if i+1 < len(segs) {
			upper = segs[i+1].base
		}
		next, cut, err := ld.recoverSegment(s, upper)
		if err != nil {
			return 0, err
		}
		end = next
		if err := ld.takeSnapshot(); err != nil {
			return 0, err
		}
		// A segment that ends short of the next one has lost its tail: nothing
		// there was ever flushed. (Below the recovery point, and if nothing can
		// have been lost, it is what Kafka's compaction leaves.)
		hole := i+1 < len(segs) && next < upper && next >= ld.opt.RecoveryPoint
		if hole && !cut && ld.opt.Intact {
			ld.rep.Holes++
			continue
		}
		if !cut && !hole {
			continue
		}
		for _, behind := range slices.Backward(segs[i+1:]) {
			if err := ld.removeSegment(behind); err != nil {
				return 0, err
			}
		}
		kept := segs[: i+1 : i+1]
		ld.segs.Store(&kept)
		break
	}
	return end, nil
}

// recoverSegment checks one segment and rebuilds its side files. upper is the
// base of the next segment: entries beyond it are bad.
func (ld *loader) recoverSegment(s *segment, upper kafka.Offset) (next kafka.Offset, cut bool, err error) {
	h, err := ld.env.Files.acquire(s, ld.Dir())
	if err != nil {
		return 0, false, err
	}
	defer h.unpin()
	if err := ld.fs().Remove(ld.path(s.base, extTxn)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, false, err
	}
	size := s.size.Load()
	ld.rep.Scanned += size
	b := newIndexer(s.base, ld.config.Load().IndexIntervalBytes)
	r := newReader(h.file, 0, size)
	next, pos := s.base, int64(0)
	for {
		e, buf, err := r.nextWhole()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = ld.checkEntry(&e, buf, s, next, upper)
		}
		if err != nil && !bad(err) {
			return 0, false, err
		}
		if err != nil {
			if next < ld.opt.RecoveryPoint {
				return 0, false, &CorruptError{ld.path(s.base, extLog), pos, next, err.Error()}
			}
			ld.rep.Cuts = append(ld.rep.Cuts, Cut{ld.path(s.base, extLog), pos, size - pos, err.Error()})
			if err := truncateFile(h.file, pos); err != nil {
				return 0, false, err
			}
			s.size.Store(pos)
			cut = true
			break
		}
		if err := ld.takeEntry(s, &e, buf, b); err != nil {
			return 0, false, err
		}
		next, pos = e.next(), pos+e.size
	}
	b.finish()
	s.maxTs.Store(int64(b.maxTs))
	s.maxTsLast = b.maxTsLast
	s.saved, s.synced = true, false
	ld.producers.SetEndOffset(max(next, ld.producers.EndOffset()))
	return next, cut, ld.writeIndex(s, b.ix, false)
}

// checkEntry tells whether a whole entry may follow. The rules about order and
// epochs catch what a power loss leaves of a truncation: old batches behind new
// ones.
func (ld *loader) checkEntry(e *entry, buf []byte, s *segment, next, upper kafka.Offset) error {
	if err := checkCRC(e, buf); err != nil {
		return err
	}
	switch {
	case e.last < next || e.magic == 2 && e.base < next:
		return fmt.Errorf("%w: offset %d after %d", batch.ErrCorrupt, e.base, next-1)
	case e.last >= upper:
		return fmt.Errorf("%w: offset %d in a segment before %d", batch.ErrCorrupt, e.last, upper)
	case e.last-s.base > maxRelative:
		return fmt.Errorf("%w: offset %d in segment %d", batch.ErrCorrupt, e.last, s.base)
	case e.epoch >= 0 && next >= ld.opt.RecoveryPoint && e.epoch < ld.epochList().at(next-1):
		return fmt.Errorf("%w: epoch %d after %d", batch.ErrCorrupt, e.epoch, ld.epochList().at(next-1))
	}
	return nil
}

// takeEntry puts an entry into indexes, epochs and producer state.
func (ld *loader) takeEntry(s *segment, e *entry, buf []byte, b *indexer) error {
	b.add(e)
	if e.magic < 2 {
		ld.producers.SetEndOffset(e.next())
		return nil
	}
	if e.epoch > ld.epochList().latest() {
		list, changed := ld.epochList().assign(e.epoch, e.base)
		ld.setEpochs(list, changed)
	}
	done, ok, err := ld.producers.Replay(batch.Batch(buf))
	if err != nil {
		ld.producers.SetEndOffset(e.next())
	}
	if ok && done.Aborted {
		return ld.appendTxnIndex(s.base, done)
	}
	return nil
}

// producersTo brings the producer state to an offset at which a segment begins:
// newer snapshots are dropped (recovery makes them anew), the newest left is
// loaded, the rest is replayed.
func (ld *loader) producersTo(o kafka.Offset) error {
	if err := ld.dropSnapshots(func(x kafka.Offset) bool { return x > o }); err != nil {
		return err
	}
	if err := ld.loadSnapshot(ld.opt.StartOffset); err != nil {
		return err
	}
	return ld.replayProducers(o)
}

func (l *Log) dropSnapshots(cond func(kafka.Offset) bool) error {
	kept := l.snapshots[:0]
	for _, o := range l.snapshots {
		if !cond(o) {
			kept = append(kept, o)
			continue
		}
		l.namesGen.Add(1)
		if err := l.fs().Remove(l.path(o, extSnapshot)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l.snapshots = kept
	return nil
}

// loadSnapshot loads the newest snapshot that can be read; bad ones are deleted
// (HC-120). Without one the state is empty and ends at otherwise.
func (ld *loader) loadSnapshot(otherwise kafka.Offset) error {
	l := ld.Log
	bad, err := l.loadNewestSnapshot(otherwise, ld.opt.Now)
	ld.rep.Rebuilt = append(ld.rep.Rebuilt, bad...)
	return err
}

func (l *Log) loadNewestSnapshot(otherwise kafka.Offset, now kafka.WallMs) (bad []string, err error) {
	for len(l.snapshots) > 0 {
		last := len(l.snapshots) - 1
		o := l.snapshots[last]
		name := l.path(o, extSnapshot)
		data, err := vfs.ReadFile(l.fs(), name)
		if err != nil {
			return bad, err
		}
		entries, err := producerstate.DecodeSnapshot(data)
		if err == nil {
			l.producers.Load(entries, o, now, l.env.ProducerExpirationMs.Load())
			return bad, nil
		}
		bad = append(bad, fileName(o, extSnapshot))
		l.snapshots = l.snapshots[:last]
		l.namesGen.Add(1)
		if err := l.fs().Remove(name); err != nil {
			return bad, err
		}
	}
	l.producers.Reset(otherwise)
	return bad, nil
}

// replayProducers reads the log from the state's end to end.
func (l *Log) replayProducers(end kafka.Offset) error {
	segs := *l.segs.Load()
	for i := max(floorSegment(segs, l.producers.EndOffset()), 0); i < len(segs) && l.producers.EndOffset() < end; i++ {
		if segs[i].base >= end {
			break
		}
		if err := l.replaySegment(segs[i], end); err != nil {
			return err
		}
	}
	l.producers.SetEndOffset(end)
	return nil
}

func (l *Log) replaySegment(s *segment, end kafka.Offset) error {
	if s.size.Load() == 0 {
		return nil
	}
	ix, err := l.indexOf(s)
	if err != nil {
		return err
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return err
	}
	defer h.unpin()
	from := l.producers.EndOffset()
	r := newReader(h.file, ix.floorOffset(max(int64(from-s.base), 0)), s.size.Load())
	for {
		e, buf, err := r.nextWhole()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return l.corrupt(s, r.pos, from, err)
		}
		if e.last < from || e.magic < 2 {
			continue
		}
		if e.base >= end {
			return nil
		}
		if _, _, err := l.producers.Replay(batch.Batch(buf)); err != nil {
			l.producers.SetEndOffset(e.next())
		}
	}
}

// finishProducers brings the producer state to the end of the log and drops the
// snapshots that Kafka would drop. After a clean stop without any snapshot the
// state is taken to be empty, as Kafka does, instead of reading the whole log.
func (ld *loader) finishProducers(end kafka.Offset) error {
	if err := ld.dropStraySnapshots(end); err != nil {
		return err
	}
	if ld.rep.Scanned == 0 {
		had := len(ld.snapshots) > 0
		if err := ld.loadSnapshot(ld.StartOffset()); err != nil {
			return err
		}
		if !had {
			ld.producers.Reset(end)
		} else if err := ld.replayProducers(end); err != nil {
			return err
		}
	}
	ld.producers.SetEndOffset(end)
	if ld.rep.Scanned > 0 {
		return ld.takeSnapshot()
	}
	return nil
}

// dropStraySnapshots is ProducerStateManager.removeStraySnapshots: the ones at
// which no segment begins go, but for the newest behind the last segment.
func (ld *loader) dropStraySnapshots(end kafka.Offset) error {
	segs := ld.opened()
	lastBase := segs[len(segs)-1].base
	newest := kafka.NoOffset
	if n := len(ld.snapshots); n > 0 {
		for _, o := range ld.snapshots {
			if o <= end {
				newest = o
			}
		}
	}
	return ld.dropSnapshots(func(o kafka.Offset) bool {
		i := floorSegment(segs, o)
		begins := i >= 0 && segs[i].base == o
		return o > end || !begins && !(o == newest && o >= lastBase)
	})
}
