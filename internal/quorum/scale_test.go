package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
	"moldau/internal/vfs"
)

// The sizes of the scale benchmarks: topics of ten partitions, three replicas,
// 300 brokers.
const (
	scaleBrokers   = 300
	scalePerTopic  = 10
	scaleNewTopics = 20
)

// scaleImage is the metadata of a large cluster; brokers are in service.
func scaleImage(tb testing.TB, partitions int) *metadata.Image {
	d := metadata.NewDelta(metadata.Empty())
	replay := func(m record.Message) {
		if err := d.Replay(m); err != nil {
			tb.Fatal(err)
		}
	}
	for _, f := range features() {
		replay(f.Message)
	}
	for id := range kafka.NodeID(scaleBrokers) {
		m := record.NewRegisterBroker()
		m.BrokerID, m.BrokerEpoch, m.Fenced, m.LogDirs = id, kafka.BrokerEpoch(id), false, []kafka.DirectoryID{scaleDir(id)}
		m.EndPoints = []record.BrokerEndpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092}}
		replay(m)
	}
	for t := range partitions / scalePerTopic {
		topic := &record.Topic{Name: fmt.Sprintf("topic-%07d", t)}
		binary.BigEndian.PutUint64(topic.TopicID[:], uint64(t+1)*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(topic.TopicID[8:], uint64(t+1)*0xc2b2ae3d27d4eb4f)
		replay(topic)
		for p := range scalePerTopic {
			m := record.NewPartition()
			m.PartitionID, m.TopicID = kafka.PartitionID(p), topic.TopicID
			for i := range 3 {
				n := kafka.NodeID((t*7 + p*31 + i*(1+t%97)) % scaleBrokers)
				m.Replicas, m.Directories = append(m.Replicas, n), append(m.Directories, scaleDir(n))
			}
			m.ISR, m.Leader, m.LeaderEpoch, m.PartitionEpoch = m.Replicas, m.Replicas[0], 0, 0
			replay(m)
		}
	}
	return d.Apply(metadata.Provenance{EndOffset: kafka.Offset(partitions), Epoch: 1, TimestampMs: 1})
}

func scaleDir(n kafka.NodeID) kafka.DirectoryID {
	return kafka.DirectoryID{0: byte(n), 1: byte(n >> 8), 2: 1, 15: 200}
}

// writeScale writes the image as a snapshot into a formatted metadata folder.
func writeScale(tb testing.TB, dir string, img *metadata.Image, voters raft.VoterSet) (bytes int64) {
	p := img.Provenance()
	id := kafka.OffsetAndEpoch{Offset: p.EndOffset, Epoch: p.Epoch}
	w, err := createSnapshot(vfs.OS{}, filepath.Join(dir, Folder), id, p.TimestampMs, 1, 1, voters)
	if err == nil {
		err = img.WriteSnapshot(w.Add)
	}
	if err == nil {
		err = w.Freeze()
	}
	if err != nil {
		tb.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, Folder, snapshotName(id)))
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkScale: memory of an image, and a snapshot of it written and loaded on
// the real file system. Aims: 150 B a partition, 2,000,000 partitions loaded a
// second.
func BenchmarkScale(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 2_000_000} {
		b.Run(fmt.Sprint("partitions=", n), func(b *testing.B) {
			before := heapInUse()
			img := scaleImage(b, n)
			perPartition := float64(heapInUse()-before) / float64(n)
			set, _ := raft.NewVoterSet(self(b))
			var wrote, loaded time.Duration
			var size int64
			for b.Loop() {
				dir := b.TempDir()
				if err := Format(FormatOptions{FS: vfs.OS{}, Dir: dir, KRaft: 1, Voters: set, Records: features(), Now: 1}); err != nil {
					b.Fatal(err)
				}
				at := time.Now()
				size = writeScale(b, dir, img, set)
				wrote += time.Since(at)
				opts := options(b, vfs.OS{})
				opts.Dir = dir
				at = time.Now()
				q, err := Open(opts)
				loaded += time.Since(at)
				if err != nil {
					b.Fatal(err)
				}
				if q.Image().NumPartitions() != n {
					b.Fatalf("%d partitions", q.Image().NumPartitions())
				}
				if err := errors.Join(q.Stop(b.Context()), os.RemoveAll(dir)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(perPartition, "B/partition")
			b.ReportMetric(float64(size)/float64(n), "snapshot-B/partition")
			b.ReportMetric(wrote.Seconds()/float64(b.N), "s/write")
			b.ReportMetric(loaded.Seconds()/float64(b.N), "s/load")
			b.ReportMetric(float64(n)*float64(b.N)/loaded.Seconds(), "partitions/s-load")
			runtime.KeepAlive(img)
		})
	}
}

// BenchmarkFailover: three controllers with the metadata of a million
// partitions; the connection to the leader breaks; until the next leader has
// acknowledged a topic. Aim: a second.
func BenchmarkFailover(b *testing.B) {
	const n = 1_000_000
	img := scaleImage(b, n)
	for b.Loop() {
		b.StopTimer()
		m, nodes := openThree(b, func(o *Options) {
			dir := b.TempDir()
			set := threeVoters()
			if err := Format(FormatOptions{FS: vfs.OS{}, Dir: dir, KRaft: 1, Voters: set, Records: features(), Now: 1}); err != nil {
				b.Fatal(err)
			}
			writeScale(b, dir, img, set)
			state := raft.ElectionState{Epoch: img.Provenance().Epoch, Leader: kafka.NoNode, Voted: raft.NoReplica}
			if err := saveQuorumState(vfs.OS{}, filepath.Join(dir, Folder), state, 1, set); err != nil {
				b.Fatal(err)
			}
			o.FS, o.Dir = vfs.OS{}, dir
			o.Raft.ElectionTimeout, o.Raft.FetchTimeout, o.Raft.FastFailover = time.Second, 2*time.Second, true
			o.Controller.SessionTimeout = time.Hour
		})
		for _, n := range nodes {
			n.Start()
		}
		var leader *watched
		nodes[1].until(b, func(img *metadata.Image) bool { return img.Provenance().EndOffset > n })
		leader = nodes[nodes[1].Leader().Leader]
		m.mu.Lock()
		m.gone[leader.id] = true
		m.mu.Unlock()
		// What is on its way arrives before the loss, as on a real connection.
		<-time.After(200 * time.Millisecond)
		epoch := leader.Leader().Epoch
		b.StartTimer()
		for _, n := range nodes {
			if n != leader {
				n.Deliver(raft.LeaderConnectionLost{Leader: leader.id})
			}
		}
		acknowledged(b, nodes, leader, epoch)
		b.StopTimer()
		for _, n := range nodes {
			if err := n.Stop(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
}

// acknowledged returns when a node other than the former leader has created a
// topic.
func acknowledged(b *testing.B, nodes map[kafka.NodeID]*watched, former *watched, epoch kafka.Epoch) {
	for {
		for _, n := range nodes {
			if l := n.Leader(); n == former || l.Leader != n.id || l.Epoch <= epoch {
				continue
			}
			done := make(chan outcome, 1)
			n.Submit(Context{}, createTopic("after"), func(resp any, err error) { done <- outcome{resp, err} })
			if o := <-done; topicError(o) == nil {
				return
			}
		}
		<-time.After(100 * time.Microsecond)
	}
}
