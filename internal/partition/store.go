package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/seglog"
	"moldau/internal/seglog/logdir"
	"moldau/internal/vfs"
)

// Options configure a Store.
type Options struct {
	FS   vfs.FS
	Dirs []Dir
	Self kafka.NodeID
	Now  func() kafka.Now
	Log  *slog.Logger
	// Random draws the unique part of the names of deleted folders, and jitter.
	Random func() uint64
	// Static finds the broker's static settings, under those of topics.
	Static config.Lookup
	// Boot is the id of the machine's boot, "" if it is not known.
	Boot string
	// OpenFiles bounds the descriptors of segments.
	OpenFiles int
	// LoadWorkers is how many logs are opened at a time.
	LoadWorkers int
	// Fatal is called when no log directory is left; the process must stop.
	Fatal func(error)

	RetentionCheckMs    int64 // log.retention.check.interval.ms
	InitialTaskDelayMs  int64 // before the first retention check
	HighCheckpointMs    int64 // replica.high.watermark.checkpoint.interval.ms
	FlushCheckpointMs   int64 // log.flush.offset.checkpoint.interval.ms
	StartCheckpointMs   int64 // log.flush.start.offset.checkpoint.interval.ms
	ProducerExpireMs    int64 // producer.id.expiration.ms
	DeletedFolderWaitMs int64 // how long a deleted partition's folder stays (file.delete.delay.ms of the broker)
}

// Store holds the partitions that have a replica on this broker.
type Store struct {
	opts      Options
	env       *seglog.Env
	dirs      []*directory
	topics    sync.Map // kafka.TopicID → *topic
	Deadlines *Deadlines
	epoch     atomic.Int64 // broker epoch, for the clean shutdown marker

	tuned       atomic.Pointer[tuned]
	flushByTime atomic.Bool // some topic has a flush.ms
	holes       atomic.Bool // some log had such that were taken for compaction's
	unmade      atomic.Bool // some partition could not be created for want of space
	unflushed   atomic.Bool // some partition could not be flushed for want of space

	removals removals
	flushes  chan *Partition
	cleaner  cleaner
	stop     chan struct{}
	work     sync.WaitGroup
	// checkpointing is held while a checkpoint file is written.
	checkpointing sync.Mutex
	byHand        bool // no goroutines behind: a test runs the chores

	mu     sync.Mutex // Apply, Load and Close
	loaded bool
	closed bool
}

// topic holds the partitions of one topic by number; nil where there is no
// replica here.
type topic struct {
	name  string
	parts atomic.Pointer[[]*Partition]
}

// New makes a Store without partitions; Load fills it.
func New(opts Options) *Store {
	s := &Store{
		opts: opts, env: seglog.NewEnv(seglog.NewFiles(opts.FS, opts.OpenFiles)),
		Deadlines: NewDeadlines(func() kafka.Mono { return opts.Now().Mono }),
		flushes:   make(chan *Partition, flushQueue), stop: make(chan struct{}),
	}
	s.env.Jitter = func(n int64) int64 { return int64(opts.Random() % uint64(n)) }
	s.tune(metadata.Empty())
	s.cleaner = cleaner{store: s, wake: make(chan struct{})}
	for _, d := range opts.Dirs {
		s.dirs = append(s.dirs, &directory{Dir: d, log: opts.Log, onFailed: s.directoryFailed})
	}
	return s
}

const (
	// never is the flush.ms of a topic that asks for no flushes by time.
	never = 1<<63 - 1
	// flushQueue bounds the rolled segments that wait to be flushed; more wait
	// for the next checkpoint.
	flushQueue = 1024
)

// Partition finds a partition; nil if there is no replica here.
func (s *Store) Partition(id kafka.TopicID, n kafka.PartitionID) *Partition {
	t, ok := s.topics.Load(id)
	if !ok {
		return nil
	}
	parts := *t.(*topic).parts.Load()
	if n < 0 || int(n) >= len(parts) {
		return nil
	}
	return parts[n]
}

// each calls f with every partition.
func (s *Store) each(f func(*Partition)) {
	s.topics.Range(func(_, t any) bool {
		for _, p := range *t.(*topic).parts.Load() {
			if p != nil {
				f(p)
			}
		}
		return true
	})
}

func (s *Store) directoryFailed(*directory, error) {
	for _, d := range s.dirs {
		if !d.failed.Load() {
			return
		}
	}
	s.opts.Fatal(fmt.Errorf("all log directories have failed"))
}

// SetBrokerEpoch tells the epoch of this broker's registration.
func (s *Store) SetBrokerEpoch(e kafka.BrokerEpoch) { s.epoch.Store(int64(e)) }

// Layers gives the places where a topic's settings are set, as img has them.
func (s *Store) Layers(img *metadata.Image, topicName string) config.Layers {
	return LayersOf(img, s.opts.Static, s.opts.Self, topicName)
}

// LayersOf gives the places where settings are set, as the broker self sees
// them; topicName may be empty.
func LayersOf(img *metadata.Image, static config.Lookup, self kafka.NodeID, topicName string) config.Layers {
	of := func(t metadata.ResourceType, name string) config.Lookup {
		r := metadata.Resource{Type: t, Name: name}
		if len(img.Configs(r)) == 0 {
			return nil
		}
		return func(key string) (string, bool) { return img.Config(r, key) }
	}
	l := config.Layers{
		Broker:  of(metadata.BrokerResource, strconv.Itoa(int(self))),
		Default: of(metadata.BrokerResource, ""),
		Static:  static,
	}
	if topicName != "" {
		l.Topic = of(metadata.TopicResource, topicName)
	}
	return l
}

func (s *Store) settings(img *metadata.Image, topicName string) *Settings {
	return SettingsOf(config.ResolveTopic(s.Layers(img, topicName)))
}

// Apply follows a change of the metadata: partitions come, go, change leaders
// and settings.
func (s *Store) Apply(d *metadata.Delta, img *metadata.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := s.opts.Now().Wall
	for _, c := range d.Topics() {
		if c.Deleted() {
			s.deleteTopic(c.ID(), now)
			continue
		}
		s.applyTopic(c, img, now)
	}
	s.applyConfigs(d, img)
}

func (s *Store) applyTopic(c metadata.TopicChange, img *metadata.Image, now kafka.WallMs) {
	id, name := c.ID(), c.After.Name()
	var settings *Settings
	for _, n := range c.Partitions {
		after, ok := c.After.Partition(n)
		p := s.Partition(id, n)
		if !ok || !slices.Contains(after.Replicas, s.opts.Self) {
			if p != nil {
				s.remove(id, p, now)
			}
			continue
		}
		if p == nil {
			if settings == nil {
				settings = s.settings(img, name)
			}
			p = s.create(id, kafka.TopicPartition{Topic: name, Partition: n}, s.place(after), settings, now)
		}
		p.assign(assignment(after), now)
	}
}

func assignment(p metadata.Partition) replica.Assignment {
	return replica.Assignment{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR}
}

// applyConfigs gives new settings to the topics that changed, or to all if the
// broker's did.
func (s *Store) applyConfigs(d *metadata.Delta, img *metadata.Image) {
	for _, r := range d.Configs() {
		switch r.Type {
		case metadata.TopicResource:
			if t := img.TopicByName(r.Name); t.Exists() {
				s.configure(t.ID(), s.settings(img, r.Name))
			}
		case metadata.BrokerResource:
			if r.Name != "" && r.Name != strconv.Itoa(int(s.opts.Self)) {
				continue
			}
			s.tune(img)
			s.cleaner.configure(CleanerSettingsOf(s.Layers(img, "")))
			if !s.byHand {
				s.cleaner.start()
			}
			s.topics.Range(func(id, t any) bool {
				s.configure(id.(kafka.TopicID), s.settings(img, t.(*topic).name))
				return true
			})
		}
	}
}

func (s *Store) configure(id kafka.TopicID, settings *Settings) {
	if t, ok := s.topics.Load(id); ok {
		for _, p := range *t.(*topic).parts.Load() {
			if p != nil {
				p.configure(settings)
			}
		}
	}
}

// place chooses the directory of a new replica: the one that the metadata
// names, or else the one with the fewest that is not cordoned.
func (s *Store) place(p metadata.Partition) *directory {
	want, _ := p.Directory(s.opts.Self)
	t := s.tuned.Load()
	var best *directory
	for _, d := range s.dirs {
		if d.ID == want {
			return d
		}
		if d.failed.Load() {
			continue
		}
		switch cordoned := t.isCordoned(d.Path); {
		case best == nil, t.isCordoned(best.Path) && !cordoned:
			best = d
		case cordoned == t.isCordoned(best.Path) && d.count.Load() < best.count.Load():
			best = d
		}
	}
	if best == nil {
		best = s.dirs[0]
	}
	return best
}

// create makes a partition with an empty log, or an offline one if that fails.
func (s *Store) create(id kafka.TopicID, tp kafka.TopicPartition, d *directory, settings *Settings, now kafka.WallMs) *Partition {
	p := s.newPartition(id, tp, d, settings)
	log, err := s.createLog(id, tp, d, settings, now)
	if err != nil {
		s.createFailed(p, err)
	} else {
		p.adopt(log, 0)
	}
	s.add(id, p)
	return p
}

func (s *Store) newPartition(id kafka.TopicID, tp kafka.TopicPartition, d *directory, settings *Settings) *Partition {
	p := &Partition{store: s, tp: tp, topic: id, dir: d}
	p.configure(settings)
	p.view.Store(&view{leader: kafka.NoNode, epoch: kafka.NoEpoch})
	p.state = replica.New(s.opts.Self, 0, 0)
	return p
}

// adopt takes a log over, whose high watermark was last known as hw.
func (p *Partition) adopt(log *seglog.Log, hw kafka.Offset) {
	p.state = replica.New(p.store.opts.Self, max(hw, log.StartOffset()), log.EndOffset())
	p.base = log.ActiveBase()
	p.publish(log)
	p.log.Store(log)
}

// createLog makes the folder. Its topic id becomes durable with the first flush.
func (s *Store) createLog(id kafka.TopicID, tp kafka.TopicPartition, d *directory, settings *Settings, now kafka.WallMs) (*seglog.Log, error) {
	if d.failed.Load() {
		return nil, fmt.Errorf("log directory %s is offline", d.Path)
	}
	if err := s.forget(d, tp); err != nil {
		return nil, err
	}
	path := d.Path + "/" + tp.String()
	log, _, err := seglog.Open(seglog.Options{Env: s.env, Dir: path, Config: settings.Log, Clean: true, Now: now})
	if err != nil {
		return nil, err
	}
	if err := s.writeTopicID(path, id); err != nil {
		log.Abandon()
		return nil, err
	}
	return log, nil
}

func (s *Store) writeTopicID(path string, id kafka.TopicID) error {
	f, err := s.opts.FS.Open(path+"/"+logdir.PartitionMetadataFile, vfs.CreateTruncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("version: 0\ntopic_id: "+id.String()), 0)
	return errors.Join(err, f.Close())
}

// add makes a partition findable.
func (s *Store) add(id kafka.TopicID, p *Partition) {
	v, _ := s.topics.LoadOrStore(id, newTopic(p.tp.Topic))
	t := v.(*topic)
	old := *t.parts.Load()
	parts := make([]*Partition, max(len(old), int(p.tp.Partition)+1))
	copy(parts, old)
	parts[p.tp.Partition] = p
	t.parts.Store(&parts)
	p.dir.count.Add(1)
}

func newTopic(name string) *topic {
	t := &topic{name: name}
	t.parts.Store(&[]*Partition{})
	return t
}

func (s *Store) deleteTopic(id kafka.TopicID, now kafka.WallMs) {
	t, ok := s.topics.LoadAndDelete(id)
	if !ok {
		return
	}
	for _, p := range *t.(*topic).parts.Load() {
		if p != nil {
			s.discard(p, now)
		}
	}
}

// remove takes one partition away, whose replica is no longer placed here.
func (s *Store) remove(id kafka.TopicID, p *Partition, now kafka.WallMs) {
	if v, ok := s.topics.Load(id); ok {
		t := v.(*topic)
		parts := slices.Clone(*t.parts.Load())
		parts[p.tp.Partition] = nil
		t.parts.Store(&parts)
	}
	s.discard(p, now)
}

// discard closes a partition to everybody and renames its folder at once, to
// be removed later; so a topic of the same name can come at any time.
func (s *Store) discard(p *Partition, now kafka.WallMs) {
	p.mu.Lock()
	p.closed = true
	p.view.Store(&view{leader: kafka.NoNode, epoch: kafka.NoEpoch})
	log := p.log.Swap(nil)
	run := p.abortCleaning()
	p.mu.Unlock()
	p.watch.wake()
	run.wait() // it must not make files in the folder of a new partition of the same name
	p.dir.count.Add(-1)
	p.dir.discarded(p.tp)
	if p.dir.failed.Load() {
		return
	}
	// A flush under way must not find the folder gone, nor write into that of a
	// new partition of the same name.
	p.flushing.Lock()
	defer p.flushing.Unlock()
	to := p.dir.Path + "/" + logdir.DeletedName(p.tp, fmt.Sprintf("%016x%016x", s.opts.Random(), s.opts.Random()))
	var err error
	if log != nil {
		err = log.RenameDir(to)
	} else {
		err = s.renameOffline(p, to)
	}
	switch {
	case log == nil && errors.Is(err, fs.ErrNotExist):
		return // it could not even be created
	case err != nil:
		p.dir.fail(fmt.Errorf("delete %s: %w", p.tp, err))
		return
	}
	if log != nil {
		log.Abandon()
	}
	s.removals.add(to, now+kafka.WallMs(s.tuned.Load().folderWaitMs))
}

// Replica tells about one partition for DescribeLogDirs.
type Replica struct {
	kafka.TopicPartition
	SizeBytes int64
	Offline   bool
}

// DirInfo tells about one log directory.
type DirInfo struct {
	Path       string
	ID         kafka.DirectoryID
	Offline    bool
	Cordoned   bool // it gets no new replicas
	TotalBytes int64
	FreeBytes  int64
	Replicas   []Replica
}

// OfflineDirs lists the log directories that have failed.
func (s *Store) OfflineDirs() (out []kafka.DirectoryID) {
	for _, d := range s.dirs {
		if d.failed.Load() {
			out = append(out, d.ID)
		}
	}
	return out
}

// Describe tells about all log directories.
func (s *Store) Describe() []DirInfo {
	infos := make([]DirInfo, len(s.dirs))
	at := map[*directory]*DirInfo{}
	for i, d := range s.dirs {
		infos[i] = DirInfo{Path: d.Path, ID: d.ID, Offline: d.failed.Load(), Cordoned: s.tuned.Load().isCordoned(d.Path), TotalBytes: -1, FreeBytes: -1}
		if sp, err := s.opts.FS.Space(d.Path); err == nil {
			infos[i].TotalBytes, infos[i].FreeBytes = sp.TotalBytes, sp.FreeBytes
		}
		at[d] = &infos[i]
	}
	s.each(func(p *Partition) {
		r := Replica{TopicPartition: p.tp, Offline: true}
		if log := p.log.Load(); log != nil {
			r.SizeBytes, r.Offline = log.SizeBytes(), false
		}
		info := at[p.dir]
		info.Replicas = append(info.Replicas, r)
	})
	return infos
}
