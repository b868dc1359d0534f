package seglog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// syncEvery bounds what waits to be written behind a pass: no sync of a cleaned
// file takes long.
const syncEvery = 32 << 20

// cleanedFile is a segment that is being written as .cleaned.
type cleanedFile struct {
	c        *Cleaning
	base     kafka.Offset
	name     string
	file     vfs.File
	out      []byte // batches that are not in the file yet
	size     int64  // of the file
	unsynced int64
	pos      int64 // file and out
	ix       *indexer
	firstTs  kafka.WallMs
	aborted  []AbortedTxn
	changed  bool
}

func newCleanedFile(c *Cleaning, base kafka.Offset) (*cleanedFile, error) {
	name := c.dir + "/" + fileName(base, extLog+extCleaned)
	f, err := c.log.fs().Open(name, vfs.CreateTruncate)
	if err != nil {
		return nil, err
	}
	return &cleanedFile{c: c, base: base, name: name, file: f, ix: newIndexer(base, c.conf.IndexIntervalBytes), firstTs: tsUnknown}, nil
}

// add takes in a batch that was put at the end of out; from is what it was.
func (w *cleanedFile) add(b, from batch.Batch) error {
	w.changed = w.changed || !bytes.Equal(b, from)
	if w.pos == 0 {
		w.firstTs = b.MaxTimestamp()
	}
	w.ix.add(&entry{pos: w.pos, size: int64(len(b)), base: b.BaseOffset(), last: b.LastOffset(), maxTs: b.MaxTimestamp()})
	if w.pos += int64(len(b)); w.pos > maxSegmentBytes {
		return fmt.Errorf("%s: %w: the segment grows beyond %d bytes", w.name, ErrUncleanable, int64(maxSegmentBytes))
	}
	if len(w.out) >= w.c.limits.BufferBytes {
		return w.write()
	}
	return nil
}

func (w *cleanedFile) write() error {
	if len(w.out) == 0 {
		return nil
	}
	if err := w.c.limits.Pace(len(w.out)); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(w.out, w.size); err != nil {
		return err
	}
	w.size += int64(len(w.out))
	w.unsynced += int64(len(w.out))
	w.c.Stats.WrittenBytes += int64(len(w.out))
	w.out = w.out[:0]
	if w.unsynced < syncEvery {
		return nil
	}
	w.unsynced = 0
	return w.file.Datasync()
}

// finish makes the segment durable with its indexes, still as .cleaned.
func (w *cleanedFile) finish(group []*segment) (*Cleaned, error) {
	out := &Cleaned{c: w.c, group: group, file: w.file, exts: []string{extLog, extIndex, extTime}}
	w.ix.finish()
	write := func(ext string, data []byte) error {
		return w.c.log.writeFile(w.c.dir+"/"+fileName(w.base, ext+extCleaned), data, true)
	}
	err := w.write()
	if err == nil {
		err = w.file.Datasync()
	}
	if err == nil && w.ix.maxTs < 0 {
		err = w.keepAge(group[len(group)-1])
	}
	if err == nil {
		err = write(extIndex, w.ix.ix.offsets.view())
	}
	if err == nil {
		err = write(extTime, w.ix.ix.times.view())
	}
	if _, serr := w.c.log.fs().Stat(w.c.dir + "/" + fileName(w.base, extTxn)); err == nil && (serr == nil || len(w.aborted) > 0) {
		var data []byte
		for _, t := range w.aborted {
			data = appendAborted(data, t)
		}
		out.exts = append(out.exts, extTxn)
		err = write(extTxn, data)
	}
	if err == nil {
		err = w.c.log.fs().SyncDir(w.c.dir)
	}
	if err != nil {
		return nil, errors.Join(err, w.drop())
	}
	s := newSegment(w.base, w.size, w.c.now)
	s.maxTs.Store(int64(w.ix.maxTs))
	s.maxTsLast, s.firstTs = w.ix.maxTsLast, w.firstTs
	s.saved, s.synced, s.named = true, true, true
	s.index.Store(w.ix.ix)
	out.seg = s
	return out, nil
}

// keepAge gives the file the age of the one that ends with the same offset: without
// timestamps retention and compaction lag go by that (Cleaner.cleanSegments).
func (w *cleanedFile) keepAge(last *segment) error {
	f, ok := w.file.(vfs.Dated)
	if !ok {
		return nil
	}
	info, err := w.c.log.fs().Stat(w.c.log.path(last.base, extLog))
	if err != nil {
		return void(last, err)
	}
	_ = f.SetModTime(info.ModTimeMs) // if the file system cannot, retention comes later
	return nil
}

// drop closes and removes what was written.
func (w *cleanedFile) drop() error {
	errs := []error{w.file.Close()}
	return errors.Join(append(errs, dropCleaned(w.c.log.fs(), w.c.dir, w.base))...)
}

func dropCleaned(fsys vfs.FS, dir string, base kafka.Offset) error {
	var errs []error
	for _, ext := range []string{extTxn, extTime, extIndex, extLog} {
		if err := fsys.Remove(dir + "/" + fileName(base, ext+extCleaned)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes what a pass that failed could not remove itself: a .cleaned file
// that stays makes the next start drop .swap files that are needed.
func (l *Log) sweep() error {
	list, err := l.fs().ReadDir(l.Dir())
	if err != nil {
		return err
	}
	// The .swap files first: alone they would count as a pass that went through.
	for _, suffix := range []string{extSwap, extCleaned} {
		found := false
		for _, e := range list {
			if e.IsDir || !hasSuffix(e.Name, suffix) {
				continue
			}
			found = true
			if err := l.fs().Remove(l.Dir() + "/" + e.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if found {
			if err := l.fs().SyncDir(l.Dir()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Cleaned is a group of segments and the one that is to take their place.
type Cleaned struct {
	c     *Cleaning
	group []*segment
	seg   *segment
	file  vfs.File
	exts  []string
}

// Discard removes the new files of a group that will not be swapped in.
func (g *Cleaned) Discard() error {
	return errors.Join(g.file.Close(), dropCleaned(g.c.log.fs(), g.c.dir, g.seg.base))
}

// swap is one that is under way: readers have the new segment already.
type swap struct {
	seg   *segment
	steps []swapStep // that are to be done yet
	jobs  []RemovalJob
}

// swapStep renames a file of the folder, or makes what was renamed durable.
type swapStep struct{ from, to string }

var syncStep = swapStep{}

// Swap puts a cleaned segment in the place of those it was made of. Readers go on
// with the files they have pinned. It fails with ErrChanged if the log is no
// longer what the group was made of. After a full disk the log is as it was, or
// the swap is under way and ResumeSwap goes on with it. Owner only; the jobs
// delete the old files.
//
// The steps are those of Kafka's LocalLog.replaceSegments, and each is durable
// before the next, so that Open, or a JVM, finds the old segments or the new one:
// .cleaned files become .swap (before the last has, they are dropped); the old
// segments behind the first become .deleted; the .log.swap file replaces the
// first; then the indexes follow. (Were they first, a crash could make Open take
// them for those of the old segment; it would rebuild all but the transactions.)
func (l *Log) Swap(g *Cleaned, now kafka.WallMs) ([]RemovalJob, error) {
	if err := errors.Join(l.usable(), l.unchanged(g)); err != nil {
		return nil, errors.Join(err, g.Discard())
	}
	s := g.seg
	for _, ext := range g.exts {
		if err := l.fs().Rename(l.path(s.base, ext+extCleaned), l.path(s.base, ext+extSwap)); err != nil {
			return nil, errors.Join(fmt.Errorf("swap: %w", err), g.file.Close(), l.sweep())
		}
	}
	l.publishSwap(g) // before the old ones are gone, so that readers find either
	l.swapping = l.planSwap(g, now)
	return l.ResumeSwap()
}

// planSwap lists the steps of a swap, and takes the old segments out of use.
func (l *Log) planSwap(g *Cleaned, now kafka.WallMs) *swap {
	w := &swap{seg: g.seg, steps: []swapStep{syncStep}}
	for _, old := range g.group[1:] {
		job, steps := l.retire(old, now)
		w.jobs = append(w.jobs, job)
		w.steps = append(w.steps, steps...)
	}
	if len(g.group) > 1 {
		w.steps = append(w.steps, syncStep)
	}
	for i, ext := range g.exts {
		name := fileName(g.seg.base, ext)
		w.steps = append(w.steps, swapStep{name + extSwap, name})
		if i == 0 || i == len(g.exts)-1 {
			w.steps = append(w.steps, syncStep)
		}
	}
	return w
}

// publishSwap gives readers the new segment.
func (l *Log) publishSwap(g *Cleaned) {
	s := g.seg
	l.swaps.Add(1)
	defer l.swaps.Add(1)
	s.swapping.Store(true)
	l.env.Files.adoptNew(s, g.file)
	segs := l.list()
	at := floorSegment(segs, s.base)
	next := append(append(segs[:at:at], s), segs[at+len(g.group):]...)
	l.segs.Store(&next)
	g.group[0].gone.Store(true)
	l.env.Files.drop(g.group[0])
}

// ResumeSwap goes on with a swap for which the disk was too full; it does nothing
// if there is none. An error is a full disk again, or has taken the log offline.
// Owner only.
func (l *Log) ResumeSwap() ([]RemovalJob, error) {
	w := l.swapping
	if w == nil {
		return nil, nil
	}
	for ; len(w.steps) > 0; w.steps = w.steps[1:] {
		switch err := l.swapStep(w.steps[0]); {
		case err == nil:
		case vfs.Exhausted(err):
			return nil, fmt.Errorf("%s: swap: %w", l.Dir(), err)
		default:
			return nil, l.fail(fmt.Errorf("swap: %w", err))
		}
	}
	l.swapping = nil
	w.seg.swapping.Store(false)
	l.env.Files.keepIndex(w.seg, w.seg.index.Load())
	return w.jobs, nil
}

func (l *Log) swapStep(s swapStep) error {
	if s == syncStep {
		return l.fs().SyncDir(l.Dir())
	}
	l.namesGen.Add(1)
	err := l.fs().Rename(l.Dir()+"/"+s.from, l.Dir()+"/"+s.to)
	if errors.Is(err, fs.ErrNotExist) && hasSuffix(s.to, extDeleted) && !hasSuffix(s.from, extLog) {
		return nil // an old segment without this side file
	}
	return err
}

// unchanged tells whether the segments of a group are still in the log as they
// were, and may still be cleaned.
func (l *Log) unchanged(g *Cleaned) error {
	segs := l.list()
	at := floorSegment(segs, g.seg.base)
	if l.truncations != g.c.truns || l.Dir() != g.c.dir || at < 0 || at+len(g.group) >= len(segs) {
		return ErrChanged
	}
	for i, s := range g.group {
		if segs[at+i] != s {
			return ErrChanged
		}
	}
	if segs[at+len(g.group)].base > l.recoveryPoint {
		return ErrChanged
	}
	return nil
}

// Swaps counts twice for every Swap: it is odd while the new segment takes the
// place of the old ones. Who reads records and then the list of aborted
// transactions compares it before and after: the list of a cleaned segment leaves
// out what is no longer in it.
func (l *Log) Swaps() uint64 { return l.swaps.Load() }
