package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// loader is the state of Open.
type loader struct {
	*Log
	opt Options
	rep Report

	logs      []kafka.Offset
	side      []sideFile
	hasEpochs bool
}

type sideFile struct {
	o   kafka.Offset
	ext string
}

// Open loads a log, making the folder if it is missing, and recovers it unless
// it was closed cleanly. Leftovers of interrupted deletions and compactions are
// dropped or finished as Kafka's LogLoader does.
//
// Recovery scans the segments from the one that holds the recovery point: it
// checks every checksum, rebuilds the indexes, and cuts the log at the first bad
// entry at or beyond the recovery point, dropping the segments behind it. A bad
// entry below the recovery point is a CorruptError instead (HC-122; Kafka would
// cut there). A log that merely ends below its recovery point is taken as it is:
// Kafka leaves that when it dies between a truncation and the next checkpoint.
// But no truncation goes below what was committed: a log that ends before
// Options.Committed is a CorruptError, too.
func Open(opt Options) (*Log, Report, error) {
	l := &Log{env: opt.Env}
	dir := opt.Dir
	l.dir.Store(&dir)
	l.config.Store(opt.Config)
	l.recoveryPoint = opt.RecoveryPoint
	l.snapSynced = opt.RecoveryPoint
	l.cleanedTo = opt.CleanedTo
	ld := &loader{Log: l, opt: opt}
	if err := ld.load(); err != nil {
		for _, s := range ld.opened() {
			l.env.Files.drop(s)
		}
		return nil, ld.rep, fmt.Errorf("open log %s: %w", dir, err)
	}
	return l, ld.rep, nil
}

func (ld *loader) opened() []*segment {
	if p := ld.segs.Load(); p != nil {
		return *p
	}
	return nil
}

func (ld *loader) load() error {
	if !ld.opt.Clean {
		// A process that died may have made the folder, or files in it, whose
		// names are not durable yet; the first flush sees to them.
		ld.newDir = true
		ld.namesGen.Add(1)
	}
	if err := ld.listFolder(); err != nil {
		return err
	}
	if err := ld.addSegments(); err != nil {
		return err
	}
	if err := ld.loadEpochs(); err != nil {
		return err
	}
	if !ld.opt.Clean {
		// Entries beyond the recovery point may be from before a truncation, with
		// other batches there now; the scan finds what is true.
		list, changed := ld.epochList().truncateEnd(ld.opt.RecoveryPoint)
		ld.setEpochs(list, changed)
	}
	end, err := ld.findEnd()
	if err != nil {
		return err
	}
	if end < ld.opt.Committed {
		return ld.endsEarly(end)
	}
	if len(ld.opened()) > 0 && end < ld.opt.StartOffset {
		if end, err = ld.dropAll(); err != nil {
			return err
		}
	}
	if len(ld.opened()) == 0 {
		s := ld.firstSegment(ld.opt.Now)
		if ld.opt.StartOffset > 0 {
			if s, err = ld.createSegment(ld.opt.StartOffset, ld.opt.Now); err != nil {
				return err
			}
		}
		ld.segs.Store(&[]*segment{s})
		end = s.base
	}
	ld.active().active.Store(true)
	ld.end.Store(int64(end))
	ld.start.Store(int64(max(ld.opt.StartOffset, ld.opened()[0].base)))
	if ld.opt.Clean {
		ld.recoveryPoint = end
	}
	ld.recoveryPoint = min(ld.recoveryPoint, end)
	list, changed := ld.epochList().truncateEnd(end)
	ld.setEpochs(list, changed)
	list, changed = ld.epochList().truncateStart(ld.opt.StartOffset)
	ld.setEpochs(list, changed)
	return ld.finishProducers(end)
}

// listFolder reads the names, after leftovers are cleared away.
func (ld *loader) listFolder() error {
	list, err := ld.fs().ReadDir(ld.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		ld.newDir = true
		ld.namesGen.Add(1)
		return ld.fs().MkdirAll(ld.Dir())
	}
	if err != nil {
		return err
	}
	if again, err := ld.clearLeftovers(list); err != nil {
		return err
	} else if again {
		if list, err = ld.fs().ReadDir(ld.Dir()); err != nil {
			return err
		}
	}
	for _, e := range list {
		o, ext, ok := parseName(e.Name)
		switch {
		case e.IsDir:
		case e.Name == epochFile:
			ld.hasEpochs = true
		case !ok:
		case ext == extLog:
			ld.logs = append(ld.logs, o)
		case ext == extSnapshot:
			ld.snapshots = append(ld.snapshots, o)
		case ext == extIndex, ext == extTime, ext == extTxn:
			ld.side = append(ld.side, sideFile{o, ext})
		}
	}
	slices.Sort(ld.logs)
	slices.Sort(ld.snapshots)
	for _, f := range ld.side {
		if _, found := slices.BinarySearch(ld.logs, f.o); !found {
			if err := ld.remove(fileName(f.o, f.ext)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ld *loader) remove(name string) error {
	ld.rep.Removed = append(ld.rep.Removed, name)
	ld.namesGen.Add(1)
	err := ld.fs().Remove(ld.Dir() + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clearLeftovers is LogLoader.removeTempFilesAndCollectSwapFiles and what it
// does with the swap files.
func (ld *loader) clearLeftovers(list []vfs.DirEntry) (changed bool, err error) {
	minCleaned := kafka.Offset(1<<63 - 1)
	var swaps, drop []string
	for _, e := range list {
		o, _, ok := parseName(e.Name)
		switch {
		case e.IsDir:
		case hasSuffix(e.Name, extDeleted) && !hasSuffix(e.Name, extCheckpointDeleted):
			drop = append(drop, e.Name)
		case hasSuffix(e.Name, extCleaned):
			drop = append(drop, e.Name)
			if ok {
				minCleaned = min(minCleaned, o)
			}
		case hasSuffix(e.Name, extSwap) && ok:
			swaps = append(swaps, e.Name)
		}
	}
	valid := swaps[:0]
	for _, name := range swaps {
		if o, _, _ := parseName(name); o < minCleaned {
			valid = append(valid, name)
			continue
		}
		// Part of a pass, or of a split, that was not finished. Durably before the
		// .cleaned file, or it might count as one that was.
		if err := errors.Join(ld.remove(name), ld.fs().SyncDir(ld.Dir())); err != nil {
			return true, err
		}
		changed = true
	}
	for _, name := range drop {
		if err := ld.remove(name); err != nil {
			return true, err
		}
	}
	if len(valid) > 0 {
		err = ld.finishSwap(list, valid)
	}
	return changed || len(drop)+len(valid) > 0, err
}

func hasSuffix(s, suffix string) bool {
	return len(s) >= len(suffix) && s[len(s)-len(suffix):] == suffix
}

// finishSwap ends an interrupted compaction: the segments that the swap files
// replace go, the swap files get their names.
func (ld *loader) finishSwap(list []vfs.DirEntry, swaps []string) error {
	from, to := kafka.Offset(1<<63-1), kafka.Offset(-1)
	for _, name := range swaps {
		o, ext, _ := parseName(name)
		if ext != extLog+extSwap {
			continue
		}
		next, err := ld.endOfFile(name, o)
		if err != nil {
			return err
		}
		from, to = min(from, o), max(to, next)
	}
	for _, e := range list {
		o, _, ok := parseName(e.Name)
		if e.IsDir || !ok || hasSuffix(e.Name, extSwap) || hasSuffix(e.Name, extDeleted) || hasSuffix(e.Name, extCleaned) {
			continue
		}
		if o >= from && o < to {
			if err := ld.remove(e.Name); err != nil {
				return err
			}
		}
	}
	// Durable step by step, as in Swap: a power loss must not bring an old segment
	// back beside the new one, nor lose a side file that has its name already.
	if err := ld.fs().SyncDir(ld.Dir()); err != nil {
		return err
	}
	for _, logs := range []bool{true, false} {
		for _, name := range swaps {
			if hasSuffix(name, extLog+extSwap) != logs {
				continue
			}
			ld.rep.Rebuilt = append(ld.rep.Rebuilt, name)
			if err := ld.fs().Rename(ld.Dir()+"/"+name, ld.Dir()+"/"+name[:len(name)-len(extSwap)]); err != nil {
				return err
			}
		}
		if err := ld.fs().SyncDir(ld.Dir()); err != nil {
			return err
		}
	}
	return nil
}

// endOfFile walks a segment file to find its end offset.
func (ld *loader) endOfFile(name string, base kafka.Offset) (kafka.Offset, error) {
	f, err := ld.fs().Open(ld.Dir()+"/"+name, vfs.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	w := newWalker(f, 0, size, make([]byte, scanChunk))
	next := base
	for {
		e, err := w.next()
		if err == io.EOF || bad(err) {
			return next, nil
		}
		if err != nil {
			return 0, err
		}
		next = e.next()
	}
}

func (ld *loader) addSegments() error {
	segs := make([]*segment, 0, len(ld.logs))
	for _, o := range ld.logs {
		info, err := ld.fs().Stat(ld.path(o, extLog))
		if err != nil {
			return err
		}
		s := newSegment(o, info.SizeBytes, ld.opt.Now)
		_, s.saved = slices.BinarySearchFunc(ld.side, o, func(f sideFile, o kafka.Offset) int {
			switch {
			case f.o < o || f.o == o && f.ext < extIndex:
				return -1
			case f.o > o || f.ext != extIndex:
				return 1
			}
			return 0
		})
		s.synced = s.saved
		segs = append(segs, s)
	}
	if len(segs) > 0 {
		ld.segs.Store(&segs)
	}
	return nil
}

// loadEpochs reads leader-epoch-checkpoint. One that is missing or corrupt is
// rebuilt from the heads of the batches (HC-120).
func (ld *loader) loadEpochs() error {
	name := ld.Dir() + "/" + epochFile
	if ld.hasEpochs {
		data, err := vfs.ReadFile(ld.fs(), name)
		if err != nil {
			return err
		}
		list, err := parseEpochs(data)
		if err == nil {
			ld.Log.epochs.Store(&list)
			return nil
		}
	}
	var list epochs
	for _, s := range ld.opened() {
		var err error
		if list, err = ld.epochsOf(s, list); err != nil {
			return err
		}
	}
	if ld.hasEpochs || len(list) > 0 {
		ld.rep.Rebuilt = append(ld.rep.Rebuilt, epochFile)
	}
	ld.setEpochs(list, ld.hasEpochs || len(list) > 0)
	return nil
}

func (ld *loader) epochsOf(s *segment, list epochs) (epochs, error) {
	if s.size.Load() == 0 {
		return list, nil
	}
	h, err := ld.env.Files.acquire(s, ld.Dir())
	if err != nil {
		return list, err
	}
	defer h.unpin()
	w := newWalker(h.file, 0, s.size.Load(), make([]byte, scanChunk))
	for {
		e, err := w.next()
		if err == io.EOF || bad(err) { // recovery, if it is due, will see to the rest
			return list, nil
		}
		if err != nil {
			return list, err
		}
		if e.epoch > list.latest() {
			list, _ = list.assign(e.epoch, e.base)
		}
	}
}

// findEnd gives the log's end offset, recovering if need be.
func (ld *loader) findEnd() (kafka.Offset, error) {
	segs := ld.opened()
	if len(segs) == 0 {
		return ld.opt.StartOffset, nil
	}
	if ld.opt.Clean {
		end, err := ld.endOfSegment(segs[len(segs)-1])
		if !bad(err) {
			return end, err
		}
	}
	return ld.recover()
}

// endOfSegment finds the end of an intact segment: from the last index entry
// on, a few heads.
func (ld *loader) endOfSegment(s *segment) (kafka.Offset, error) {
	size := s.size.Load()
	if size == 0 {
		return s.base, nil
	}
	from, err := ld.lastIndexed(s, size)
	if err != nil {
		return 0, err
	}
	h, err := ld.env.Files.acquire(s, ld.Dir())
	if err != nil {
		return 0, err
	}
	defer h.unpin()
	buf := ld.env.Files.buffer()
	defer ld.env.Files.release(buf)
	w := newWalker(h.file, from, size, *buf)
	next := s.base
	for {
		e, err := w.next()
		if err == io.EOF {
			return next, nil
		}
		if err != nil {
			return 0, err
		}
		next = e.next()
	}
}

// lastIndexed is the position in the last entry of the .index file; 0 if there
// is none to be trusted.
func (ld *loader) lastIndexed(s *segment, size int64) (int64, error) {
	if size <= ld.config.Load().IndexIntervalBytes || !s.saved {
		return 0, nil // too small to have entries
	}
	f, err := ld.fs().Open(ld.path(s.base, extIndex), vfs.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil || n == 0 || n%offsetEntry != 0 {
		return 0, err
	}
	var e [offsetEntry]byte
	if _, err := f.ReadAt(e[:], n-offsetEntry); err != nil {
		return 0, err
	}
	if _, pos := offsetAt(e[:], 0); pos < size {
		return pos, nil
	}
	return 0, nil
}

// endsEarly says where the log ends and up to where it was durable once.
func (ld *loader) endsEarly(end kafka.Offset) error {
	e := &CorruptError{File: ld.path(0, extLog), Offset: end,
		Reason: fmt.Sprintf("the log ends here, but was durable up to offset %d: this file, or one behind it, is missing or cut short", ld.opt.Committed)}
	if segs := ld.opened(); len(segs) > 0 {
		last := segs[len(segs)-1]
		e.File, e.Position = ld.path(last.base, extLog), last.size.Load()
	}
	return e
}

// dropAll removes every segment: the log ends below its start, so somebody has
// deleted files (LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd).
func (ld *loader) dropAll() (kafka.Offset, error) {
	for _, s := range slices.Backward(ld.opened()) {
		if err := ld.removeSegment(s); err != nil {
			return 0, err
		}
	}
	ld.segs.Store(&[]*segment{})
	ld.setEpochs(nil, true)
	for _, o := range ld.snapshots {
		if err := ld.remove(fileName(o, extSnapshot)); err != nil {
			return 0, err
		}
	}
	ld.snapshots = nil
	ld.producers.Reset(ld.opt.StartOffset)
	return ld.opt.StartOffset, nil
}

// removeSegment deletes a segment's files at once, durably: nobody reads yet.
func (ld *loader) removeSegment(s *segment) error {
	ld.env.Files.drop(s)
	for _, ext := range []string{extLog, extIndex, extTime, extTxn} {
		err := ld.fs().Remove(ld.path(s.base, ext))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	ld.rep.Removed = append(ld.rep.Removed, fileName(s.base, extLog))
	return ld.fs().SyncDir(ld.Dir())
}
