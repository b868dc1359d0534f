package metadata

import (
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/btree"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// The benchmarks that decided the layout: 1,000,000 partitions in topics of
// ten, three replicas, 300 brokers, random placement.
const (
	benchTopics  = 100_000
	benchPerT    = 10
	benchBrokers = 300
)

func benchReplicas(rnd *rand.Rand) []kafka.NodeID {
	var out []kafka.NodeID
	for len(out) < 3 {
		if n := kafka.NodeID(rnd.Intn(benchBrokers)); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func benchRecords(emit func(record.Message)) {
	rnd := rand.New(rand.NewSource(1))
	emit(&record.FeatureLevel{Name: FeatureMetadataVersion, FeatureLevel: int16(LatestVersion)})
	for b := range benchBrokers {
		m := record.NewRegisterBroker()
		m.BrokerID, m.BrokerEpoch, m.Fenced = kafka.NodeID(b), kafka.BrokerEpoch(b), false
		emit(m)
	}
	for i := range benchTopics {
		var id kafka.TopicID
		rnd.Read(id[:])
		emit(&record.Topic{Name: fmt.Sprintf("topic-%06d", i), TopicID: id})
		for p := range benchPerT {
			m := record.NewPartition()
			m.PartitionID, m.TopicID = kafka.PartitionID(p), id
			m.Replicas = benchReplicas(rnd)
			m.ISR, m.Leader, m.LeaderEpoch, m.PartitionEpoch = m.Replicas, m.Replicas[0], 0, 0
			for _, n := range m.Replicas {
				m.Directories = append(m.Directories, kafka.DirectoryID{0: byte(n), 1: byte(n >> 8), 2: 1})
			}
			emit(m)
		}
	}
}

func benchImage(b *testing.B) *Image {
	d := NewDelta(Empty())
	benchRecords(func(m record.Message) {
		if err := d.Replay(m); err != nil {
			b.Fatal(err)
		}
	})
	return d.Apply(Provenance{})
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// reportLayout reports the bytes that one partition costs and how long a
// garbage collection cycle takes while the state is live.
func reportLayout(b *testing.B, build func() any) {
	before := liveHeap()
	began := time.Now()
	state := build()
	built := time.Since(began)
	cost := float64(liveHeap()-before) / (benchTopics * benchPerT)
	for b.Loop() {
		runtime.GC()
	}
	b.ReportMetric(cost, "B/partition") // after the loop, which resets metrics
	b.ReportMetric(built.Seconds(), "s/build")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/gc-cycle")
	runtime.KeepAlive(state)
}

func BenchmarkImageLayout(b *testing.B) { reportLayout(b, func() any { return benchImage(b) }) }

// naivePartition is the alternative that the packed layout is measured against.
// Its fields have the sizes of a registration's; most are only carried.
//
//lint:ignore U1000 the sizes are what is measured
type naivePartition struct {
	replicas, isr, elr, last, adding, removing []kafka.NodeID
	dirs                                       []kafka.DirectoryID
	leader                                     kafka.NodeID
	leaderEpoch                                kafka.Epoch
	partitionEpoch                             int32
	recovery                                   int8
}

type naiveTopic struct {
	id    kafka.TopicID
	name  string
	parts map[kafka.PartitionID]*naivePartition
}

type naiveImage struct {
	byID     map[kafka.TopicID]*naiveTopic
	byName   *btree.Map[string, *naiveTopic]
	byBroker map[kafka.NodeID]map[kafka.TopicID][]kafka.PartitionID
}

func BenchmarkNaiveLayout(b *testing.B) {
	reportLayout(b, func() any {
		img := &naiveImage{map[kafka.TopicID]*naiveTopic{}, &btree.Map[string, *naiveTopic]{}, map[kafka.NodeID]map[kafka.TopicID][]kafka.PartitionID{}}
		benchRecords(func(m record.Message) {
			switch m := m.(type) {
			case *record.Topic:
				t := &naiveTopic{m.TopicID, m.Name, map[kafka.PartitionID]*naivePartition{}}
				img.byID[m.TopicID] = t
				img.byName.Set(m.Name, t)
			case *record.Partition:
				img.byID[m.TopicID].parts[m.PartitionID] = &naivePartition{
					replicas: slices.Clone(m.Replicas), isr: slices.Clone(m.ISR), dirs: slices.Clone(m.Directories), leader: m.Leader,
				}
				for _, n := range m.Replicas {
					if img.byBroker[n] == nil {
						img.byBroker[n] = map[kafka.TopicID][]kafka.PartitionID{}
					}
					img.byBroker[n][m.TopicID] = append(img.byBroker[n][m.TopicID], m.PartitionID)
				}
			}
		})
		return img
	})
}

// outageRecords take one broker of 300 out of leadership and ISR.
func outageRecords(img *Image) []record.Message {
	out := []record.Message{&record.FenceBroker{ID: 7, Epoch: 7}}
	img.EachPartitionOf(7, func(t Topic, p Partition) bool {
		m := record.NewPartitionChange()
		m.PartitionID, m.TopicID = p.ID, t.ID()
		m.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(n kafka.NodeID) bool { return n == 7 })
		if p.Leader == 7 {
			m.Leader = m.ISR[0]
		}
		out = append(out, m)
		return true
	})
	return out
}

// BenchmarkBrokerOutage: every node applies the records of an outage and makes
// the next image.
func BenchmarkBrokerOutage(b *testing.B) {
	img := benchImage(b)
	records := outageRecords(img)
	b.ReportAllocs()
	for b.Loop() {
		d := NewDelta(img)
		for _, m := range records {
			if err := d.Replay(m); err != nil {
				b.Fatal(err)
			}
		}
		d.Apply(Provenance{})
	}
	b.ReportMetric(float64(len(records)-1), "partitions")
}

// BenchmarkFindOutage: the active controller finds them first.
func BenchmarkFindOutage(b *testing.B) {
	img := benchImage(b)
	b.ReportAllocs()
	for b.Loop() {
		outageRecords(img)
	}
}

// BenchmarkOneTopic: one more topic beside 100,000.
func BenchmarkOneTopic(b *testing.B) {
	img := benchImage(b)
	b.ReportAllocs()
	for b.Loop() {
		d := NewDelta(img)
		id := kafka.TopicID{1, 2, 3}
		_ = d.Replay(&record.Topic{Name: "new", TopicID: id})
		p := record.NewPartition()
		p.PartitionID, p.TopicID, p.Replicas, p.ISR, p.Leader = 0, id, []kafka.NodeID{1, 2, 3}, []kafka.NodeID{1, 2, 3}, 1
		if err := d.Replay(p); err != nil {
			b.Fatal(err)
		}
		d.Apply(Provenance{})
	}
}

func BenchmarkLookup(b *testing.B) {
	d := NewDelta(start(b))
	for _, m := range (&generator{rnd: rand.New(rand.NewSource(1))}).createTopic() {
		_ = d.Replay(m)
	}
	img := d.Apply(Provenance{})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := img.TopicByName("t1").Leader(0); !ok {
			b.Fatal("no leader")
		}
	}
}
