package groups

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/record"
	"moldau/internal/statemachine"
)

// BenchmarkLoad loads a coordinator from a log of commits in memory: 64 MB, as one
// group's 1000 partitions or 1000 groups' ten make it.
func BenchmarkLoad(b *testing.B) {
	for _, c := range []struct{ groups, partitions int }{{1, 1000}, {1000, 10}, {100_000, 5}} {
		b.Run(fmt.Sprintf("%dx%d", c.groups, c.partitions), func(b *testing.B) { benchmarkLoad(b, c.groups, c.partitions, 64<<20) })
	}
}

func benchmarkLoad(b *testing.B, groups, partitions, size int) {
	l := &simLog{hw: 1 << 60, max: 1 << 20, watches: map[int]func(){}}
	records := 0
	for total := 0; total < size; {
		bl := batch.NewBuilder(nil, l.end(), 0)
		for range 500 {
			k := &record.OffsetCommitKey{Group: fmt.Sprintf("group-%d", records%groups), Topic: "some-topic", Partition: kafka.PartitionID(records / groups % partitions)}
			v := record.NewOffsetCommitValue()
			v.Offset, v.CommitTimestamp = kafka.Offset(records), 1_700_000_000_000
			bl.Add(1_700_000_000_000, record.AppendKey(nil, k), record.AppendValue(nil, v, 4))
			records++
		}
		one := bl.Finish()
		l.batches = append(l.batches, one)
		total += len(one)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		done := make(chan struct{})
		var once sync.Once
		m := statemachine.New(statemachine.Options{
			Epoch: 0, Kind: record.GroupLog, NewCore: func() coordinator.Core { return group.New(group.Options{RetentionCheckMs: 1000}) },
			Log: &oneByOne{simLog: l}, Timer: never{}, Go: func(f func()) { go f() },
			Now: func() kafka.Now { return kafka.Now{Mono: 1} }, Logger: slog.New(slog.DiscardHandler), CommitTimeout: time.Second, LoadBufferBytes: 5 << 20,
		})
		m.Start()
		for {
			m.Submit(coordinator.Request{Body: &group.Describe{}}, &probe{func(code kafka.ErrorCode) {
				if code == 0 {
					once.Do(func() { close(done) })
				}
			}})
			select {
			case <-done:
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// oneByOne reads on from where it was.
type oneByOne struct {
	*simLog
	next int
}

func (l *oneByOne) Read(_ kafka.Epoch, _ kafka.Offset, maxBytes int, buf []byte) ([]byte, error) {
	for ; l.next < len(l.batches) && len(buf)+len(l.batches[l.next]) <= maxBytes; l.next++ {
		buf = append(buf, l.batches[l.next]...)
	}
	return buf, nil
}

type never struct{}

func (never) At(kafka.Mono, func()) func() { return func() {} }
