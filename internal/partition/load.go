package partition

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/seglog"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// found is a log folder that belongs to a partition of the metadata.
type found struct {
	dir    *directory
	folder logdir.Folder
	id     kafka.TopicID
	hw     kafka.Offset
	opts   seglog.Options
	damage error // why it cannot be opened
}

// Load opens the logs that are in the directories and makes those that are
// missing, for the metadata img; then the background work starts. Logs that
// the metadata does not place here are renamed to -stray and kept (KAFKA-16234
// and later). It is called once, before the first Apply.
func (s *Store) Load(img *metadata.Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now().Wall
	s.tune(img)
	var todo []found
	seen := map[kafka.TopicPartition]string{}
	for _, d := range s.dirs {
		list, err := s.scan(d, img, now)
		if err != nil {
			return err
		}
		for _, f := range list {
			if other := seen[f.folder.TopicPartition]; other != "" {
				return fmt.Errorf("%s and %s hold the same partition; move one of them elsewhere", other, f.opts.Dir)
			}
			seen[f.folder.TopicPartition] = f.opts.Dir
		}
		todo = append(todo, list...)
	}
	s.openAll(todo, img)
	s.loaded = true
	if s.holes.Load() {
		_ = s.checkpointRecovery() // logged
	}
	s.markBoot()
	img.EachTopic(func(t metadata.Topic) bool {
		s.complete(t, img, now)
		return true
	})
	s.cleaner.configure(CleanerSettingsOf(s.Layers(img, "")))
	if !s.byHand {
		s.work.Add(2)
		go s.keep()
		go s.flusher()
		s.cleaner.start()
	}
	return nil
}

// scan looks through one directory.
func (s *Store) scan(d *directory, img *metadata.Image, now kafka.WallMs) ([]found, error) {
	folders, err := logdir.List(s.opts.FS, d.Path)
	if err != nil {
		return nil, fmt.Errorf("log directory %s: %w", d.Path, err)
	}
	intact, err := logdir.Intact(s.opts.FS, d.Path, s.opts.Boot)
	if err != nil {
		return nil, err
	}
	marks := d.readCheckpoints(s.opts.FS)
	var out []found
	for _, f := range folders {
		path := d.Path + "/" + f.Name
		switch f.Kind {
		case logdir.Foreign:
			return nil, fmt.Errorf("log directory %s has a folder that is no partition's: %s; move it elsewhere", d.Path, f.Name)
		case logdir.Deleted:
			s.removals.add(path, now+kafka.WallMs(s.tuned.Load().folderWaitMs))
		case logdir.Log:
			id, ok, err := logdir.ReadPartitionMetadata(s.opts.FS, path)
			if err != nil {
				s.opts.Log.Warn("topic id of a log is not readable", "error", err)
			}
			var damage error
			if !ok && marks.recovery[f.TopicPartition] > 0 {
				id, damage = img.TopicByName(f.Topic).ID(), idLost(path, err)
			}
			if !ok && damage == nil || !s.placed(img, id, f.Partition) {
				s.stray(d, f, id)
				continue
			}
			hw, rp := marks.high[f.TopicPartition], marks.recovery[f.TopicPartition]
			out = append(out, found{dir: d, folder: f, id: id, hw: hw, damage: damage, opts: seglog.Options{
				Env: s.env, Dir: path, Clean: d.Clean, Intact: intact, Now: now,
				StartOffset: marks.start[f.TopicPartition], RecoveryPoint: rp, Committed: min(rp, hw),
				CleanedTo: marks.cleaner[f.TopicPartition],
			}})
		}
	}
	d.discardUnknown(marks, out)
	return out, nil
}

// markBoot says in which boot the directories are written to from now on. On a full
// disk the mark of before stays, or none.
func (s *Store) markBoot() {
	for _, d := range s.dirs {
		if d.failed.Load() {
			continue
		}
		switch err := logdir.WriteBootMark(s.opts.FS, d.Path, s.opts.Boot); {
		case err == nil:
		case vfs.Exhausted(err):
			d.full(err)
		default:
			d.fail(err)
		}
	}
}

// idLost is the damage of a log that has been flushed and has no topic id any
// more: the id was flushed before. One that was never flushed may have lost it
// in a crash, with all its records, and is stray, as in Kafka.
func idLost(path string, err error) error {
	if err == nil {
		err = fmt.Errorf("%s/%s is missing", path, logdir.PartitionMetadataFile)
	}
	return fmt.Errorf("nothing tells which topic a log belongs to that holds flushed records: %w", err)
}

func (s *Store) placed(img *metadata.Image, id kafka.TopicID, n kafka.PartitionID) bool {
	p, ok := img.TopicByID(id).Partition(n)
	return ok && slices.Contains(p.Replicas, s.opts.Self)
}

func (s *Store) stray(d *directory, f logdir.Folder, id kafka.TopicID) {
	to := logdir.StrayName(f.TopicPartition, fmt.Sprintf("%016x%016x", s.opts.Random(), s.opts.Random()))
	s.opts.Log.Warn("log does not belong to this broker's metadata and is put aside; delete the folder if nobody misses it",
		"dir", d.Path, "folder", f.Name, "topic id", id, "renamed to", to)
	if err := s.opts.FS.Rename(d.Path+"/"+f.Name, d.Path+"/"+to); err != nil {
		// The folder's name is taken: nothing may be made or opened under it.
		d.fail(fmt.Errorf("put %s aside: %w", f.Name, err))
	}
	d.discarded(f.TopicPartition)
}

// openAll opens logs side by side; damage takes single partitions offline.
func (s *Store) openAll(todo []found, img *metadata.Image) {
	byTopic := map[kafka.TopicID]*Settings{}
	for i := range todo {
		settings, ok := byTopic[todo[i].id]
		if !ok {
			settings = s.settings(img, todo[i].folder.Topic)
			byTopic[todo[i].id] = settings
		}
		todo[i].opts.Config = settings.Log
	}
	parts := make([]*Partition, len(todo))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(s.opts.LoadWorkers, 1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := next.Add(1) - 1; i < int64(len(todo)); i = next.Add(1) - 1 {
				parts[i] = s.open(&todo[i], byTopic[todo[i].id])
			}
		}()
	}
	wg.Wait()
	s.addAll(todo, parts)
}

// addAll makes many partitions findable, without copying a topic's list for
// each of them.
func (s *Store) addAll(todo []found, parts []*Partition) {
	lists := map[kafka.TopicID][]*Partition{}
	for i, p := range parts {
		list := lists[todo[i].id]
		if n := int(p.tp.Partition) + 1; n > len(list) {
			list = append(list, make([]*Partition, n-len(list))...)
		}
		list[p.tp.Partition] = p
		lists[todo[i].id] = list
		p.dir.count.Add(1)
	}
	for id, list := range lists {
		t := newTopic("")
		for _, p := range list {
			if p != nil {
				t.name = p.tp.Topic
			}
		}
		t.parts.Store(&list)
		s.topics.Store(id, t)
	}
}

func (s *Store) open(f *found, settings *Settings) *Partition {
	p := s.newPartition(f.id, f.folder.TopicPartition, f.dir, settings)
	kept := marks{recovery: f.opts.RecoveryPoint, high: f.hw, start: f.opts.StartOffset, cleaner: f.opts.CleanedTo}
	if f.damage != nil {
		p.breakDown(f.damage, kept)
		return p
	}
	log, report, err := seglog.Open(f.opts)
	for _, cut := range report.Cuts {
		s.opts.Log.Warn("torn tail of a log was cut off", "file", cut.File, "position", cut.Position, "bytes", cut.Bytes, "reason", cut.Reason)
	}
	if err != nil {
		var corrupt *seglog.CorruptError
		if errors.As(err, &corrupt) {
			p.breakDown(err, kept)
		} else {
			p.broken = err
			f.dir.fail(err)
		}
		return p
	}
	p.adopt(log, f.hw)
	if report.Holes > 0 {
		s.settleHoles(p, report.Holes)
	}
	return p
}

// settleHoles makes a log durable in which Kafka's cleaner has left holes: once we
// have written to the directory, a power loss would make them look like losses.
func (s *Store) settleHoles(p *Partition, n int) {
	s.opts.Log.Info("log has segments that Kafka's cleaner has shortened since its last checkpoint", "partition", p.tp, "segments", n)
	s.holes.Store(true)
	_ = p.flushTo(p.log.Load().EndOffset()) // a failure has taken the directory offline
}

// complete makes the replicas of a topic that have no folder yet, and tells
// all of them who leads.
func (s *Store) complete(t metadata.Topic, img *metadata.Image, now kafka.WallMs) {
	var settings *Settings
	t.Each(func(mp metadata.Partition) bool {
		if !slices.Contains(mp.Replicas, s.opts.Self) {
			return true
		}
		p := s.Partition(t.ID(), mp.ID)
		if p == nil {
			if settings == nil {
				settings = s.settings(img, t.Name())
			}
			p = s.create(t.ID(), kafka.TopicPartition{Topic: t.Name(), Partition: mp.ID}, s.place(mp), settings, now)
		}
		p.assign(assignment(mp), now)
		return true
	})
}
