package statemachine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// maxExpandedBytes bounds a compressed batch of the log.
const maxExpandedBytes = 256 << 20

var errResigned = errors.New("the partition is led elsewhere, or in another epoch")

type loadResult struct {
	core           coordinator.Core
	end            kafka.Offset
	batches        int
	records, bytes int64
	took           kafka.Mono
	err            error
}

// load reads the log into a new core. It runs beside the runner, which hears of
// the result.
func (m *Machine) load() {
	began := m.opts.Now().Mono
	l := newLoader(m, m.opts.NewCore())
	l.err = l.run()
	l.took = m.opts.Now().Mono - began
	m.poke(func() { m.loaded = &l.loadResult })
}

type loader struct {
	loadResult
	m       *Machine
	work    batch.Workspace
	unknown map[int16]bool // kinds of records that were told of

	// Most records of a long log are offsets, under keys that come again and again:
	// what is decoded is kept, or made many at a time.
	keys    map[string]decodedKey
	offsets []record.OffsetCommitValue
}

func newLoader(m *Machine, core coordinator.Core) *loader {
	return &loader{m: m, loadResult: loadResult{core: core}, unknown: map[int16]bool{}, keys: map[string]decodedKey{}}
}

type decodedKey struct {
	id int16
	m  record.Message
}

const (
	// maxKeptKeys bounds the keys that are kept while loading.
	maxKeptKeys = 100_000
	// loadRetry is how long to wait at least before a log that could not be read is
	// read again, and loadRetryShare how many times as long as reading took.
	loadRetry      = 10 * time.Second
	loadRetryShare = 100
	// offsetsAtATime is how many values are made together.
	offsetsAtATime = 128
)

func (l *loader) run() error {
	o := &l.m.opts
	from, _, err := o.Log.Span(o.Epoch)
	if err != nil {
		return err
	}
	for buf := []byte(nil); ; {
		if l.m.hasResigned() {
			return errResigned
		}
		if _, l.end, err = o.Log.Span(o.Epoch); err != nil || from >= l.end {
			return err
		}
		if buf, err = o.Log.Read(o.Epoch, from, o.LoadBufferBytes, buf[:0]); err != nil {
			return err
		}
		if len(buf) == 0 {
			return nil // compaction may leave nothing up to the end
		}
		l.bytes += int64(len(buf))
		for rest := buf; len(rest) > 0; {
			var next kafka.Offset
			if next, rest, err = l.entry(rest); err != nil {
				return fmt.Errorf("batch at or after offset %d: %w", from, err)
			}
			l.batches++
			from = next
		}
	}
}

// entry replays the first batch of buf and tells where the next one begins.
func (l *loader) entry(buf []byte) (next kafka.Offset, rest []byte, err error) {
	b, rest, err := batch.Next(buf)
	if errors.Is(err, batch.ErrMagic) {
		return l.old(buf)
	}
	if err == nil && !b.Valid() {
		err = fmt.Errorf("%w: checksum", batch.ErrCorrupt)
	}
	if err != nil {
		return 0, nil, err
	}
	return b.NextOffset(), rest, l.batch(b)
}

// old replays an entry from before Kafka 0.11: a group may have committed for the
// last time then.
func (l *loader) old(buf []byte) (next kafka.Offset, rest []byte, err error) {
	o, rest, err := batch.NextOld(buf)
	if err == nil && !o.Valid() {
		err = fmt.Errorf("%w: checksum", batch.ErrCorrupt)
	}
	if err != nil {
		return 0, nil, err
	}
	err = o.Each(&l.work, maxExpandedBytes, func(m batch.Message) error {
		l.records++
		return l.record(m.Offset, kafka.NoProducerID, &batch.Record{Key: m.Key, Value: m.Value})
	})
	return o.Offset() + 1, rest, err
}

func (m *Machine) hasResigned() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.phase == resigned
}

// batch replays one batch (CoordinatorLoaderImpl.processMemoryRecords).
func (l *loader) batch(b batch.Batch) error {
	records, err := l.work.DecompressAll(b.Codec(), b.Records(), maxExpandedBytes)
	if err != nil {
		return err
	}
	producer := kafka.NoProducerID
	if b.Transactional() {
		producer = b.ProducerID()
	}
	return batch.Each(records, b.Count(), func(r *batch.Record) error {
		l.records++
		if b.Control() {
			return l.marker(b.ProducerID(), r)
		}
		return l.record(b.BaseOffset()+kafka.Offset(r.OffsetDelta), producer, r)
	})
}

// marker ends a transaction. Control records of other kinds are none of ours.
func (l *loader) marker(producer kafka.ProducerID, r *batch.Record) error {
	t, err := record.DecodeControlKey(r.Key)
	if err != nil {
		return err
	}
	if t == record.ControlCommit || t == record.ControlAbort {
		l.core.EndTransaction(producer, t == record.ControlCommit)
	}
	return nil
}

func (l *loader) record(at kafka.Offset, producer kafka.ProducerID, r *batch.Record) error {
	id, key, err := l.key(r.Key)
	if errors.Is(err, record.ErrUnsupported) && key == nil {
		// Of a later version, whose upgrade was given up (HC-103).
		if !l.unknown[id] {
			l.unknown[id] = true
			l.m.opts.Logger.Warn("records of an unknown kind are skipped", "partition", l.m.opts.Name, "kind", id, "offset", at)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("key at offset %d: %w", at, err)
	}
	var value record.Message
	if r.Value != nil {
		if value, err = l.value(id, key, r.Value); err != nil {
			return fmt.Errorf("value at offset %d: %w", at, err)
		}
	}
	if err := l.core.Replay(at, producer, key, value); err != nil {
		return fmt.Errorf("offset %d: %w", at, err)
	}
	return nil
}

func (l *loader) key(b []byte) (int16, record.Message, error) {
	if k, ok := l.keys[string(b)]; ok {
		return k.id, k.m, nil
	}
	id, m, err := record.DecodeKey(l.m.opts.Kind, b)
	if err == nil {
		if len(l.keys) >= maxKeptKeys {
			clear(l.keys)
		}
		l.keys[string(b)] = decodedKey{id, m}
	}
	return id, m, err
}

func (l *loader) value(id int16, key record.Message, b []byte) (record.Message, error) {
	if _, ok := key.(*record.OffsetCommitKey); !ok {
		v, _, err := record.DecodeValue(l.m.opts.Kind, id, b)
		return v, err
	}
	if len(l.offsets) == 0 {
		l.offsets = make([]record.OffsetCommitValue, offsetsAtATime)
	}
	v := &l.offsets[0]
	l.offsets = l.offsets[1:]
	_, err := record.DecodeVersioned(b, v)
	return v, err
}

// begin makes a loaded core active, or the Machine failed.
func (m *Machine) begin(l *loadResult) {
	log := m.opts.Logger.With("partition", m.opts.Name, "epoch", m.opts.Epoch)
	if l.err != nil {
		m.loadFailed(l, log)
		return
	}
	m.mu.Lock()
	notes := m.notes
	m.notes = nil
	stays := m.phase == loading
	if stays {
		m.phase = active
	}
	m.mu.Unlock()
	if !stays {
		return
	}
	now := m.opts.Now()
	m.core, m.failure = l.core, ""
	m.write.reset(l.end, 0)
	m.out.Reset()
	m.core.Loaded(now, &m.out)
	m.take(now)
	for _, n := range notes {
		m.step(&event{note: n})
	}
	level := slog.LevelInfo
	if l.records == 0 {
		level = slog.LevelDebug // a new topic: fifty times nothing
	}
	log.Log(context.Background(), level, "coordinator loaded", "records", l.records, "batches", l.batches, "bytes", l.bytes, "ms", int64(l.took)/1e6)
}

// loadFailed has the log read again in some time: it may have been missing for
// want of space, or of file handles.
func (m *Machine) loadFailed(l *loadResult, log *slog.Logger) {
	if !m.enter(failed) {
		return
	}
	if why := l.err.Error(); why != m.failure {
		m.failure = why
		log.Error("coordinator cannot be loaded; its groups have none until that works, or the partition gets another leader epoch", "error", l.err)
	}
	pause := max(loadRetry, loadRetryShare*time.Duration(l.took))
	m.opts.Timer.At(m.opts.Now().Mono.Add(pause), func() {
		m.mu.Lock()
		again := m.phase == failed
		if again {
			m.phase = loading
		}
		m.mu.Unlock()
		if again {
			m.load()
		}
	})
}
