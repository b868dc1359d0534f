package metadata

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// generator makes random records that fit the image it is given.
type generator struct {
	rnd    *rand.Rand
	topics int
}

func ptr[T any](v T) *T { return &v }

func (g *generator) nodes(n int) []kafka.NodeID {
	out := make([]kafka.NodeID, 0, n)
	for _, i := range g.rnd.Perm(8)[:n] {
		out = append(out, kafka.NodeID(i+1))
	}
	return out
}

func (g *generator) subset(of []kafka.NodeID) []kafka.NodeID {
	out := []kafka.NodeID{}
	for _, n := range of {
		if g.rnd.Intn(3) > 0 {
			out = append(out, n)
		}
	}
	g.rnd.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (g *generator) anyTopic(img *Image) Topic {
	var all []Topic
	img.EachTopic(func(t Topic) bool { all = append(all, t); return true })
	if len(all) == 0 {
		return Topic{}
	}
	return all[g.rnd.Intn(len(all))]
}

// next gives a few records that belong together.
func (g *generator) next(img *Image) []record.Message {
	t := g.anyTopic(img)
	switch k := g.rnd.Intn(20); {
	case k < 4 || !t.Exists():
		return g.createTopic()
	case k < 5:
		return []record.Message{&record.RemoveTopic{TopicID: t.ID()}}
	case k < 12:
		return g.changePartition(t)
	case k < 13:
		return []record.Message{&record.ClearELR{TopicName: []string{"", t.Name()}[g.rnd.Intn(2)]}}
	case k < 16:
		return g.broker(img)
	case k < 18:
		value := ptr(fmt.Sprint(g.rnd.Intn(5)))
		if g.rnd.Intn(3) == 0 {
			value = nil
		}
		return []record.Message{&record.Config{ResourceType: int8(TopicResource), ResourceName: t.Name(), Name: fmt.Sprint("c", g.rnd.Intn(3)), Value: value}}
	case k < 19:
		return []record.Message{&record.ClientQuota{Entity: []record.EntityData{{EntityType: "user", EntityName: nil}, {EntityType: "client-id", EntityName: ptr("a")}},
			Key: fmt.Sprint("k", g.rnd.Intn(3)), Value: 1, Remove: g.rnd.Intn(2) == 0}}
	}
	return []record.Message{&record.FeatureLevel{Name: "x.version", FeatureLevel: int16(g.rnd.Intn(3))}}
}

func (g *generator) createTopic() []record.Message {
	g.topics++
	id := kafka.TopicID{0: byte(g.topics), 1: byte(g.topics >> 8), 15: 9}
	out := []record.Message{&record.Topic{Name: fmt.Sprintf("t%d", g.topics), TopicID: id}}
	for i := range 1 + g.rnd.Intn(4) {
		p := record.NewPartition()
		p.PartitionID, p.TopicID = kafka.PartitionID(i), id
		p.Replicas = g.nodes(1 + g.rnd.Intn(6))
		p.ISR = g.subset(p.Replicas)
		p.Leader, p.LeaderEpoch, p.PartitionEpoch = kafka.NoNode, 0, 0
		if len(p.ISR) > 0 {
			p.Leader = p.ISR[0]
		}
		p.Directories = make([]kafka.DirectoryID, len(p.Replicas))
		for i := range p.Directories {
			p.Directories[i] = kafka.DirectoryID{0: byte(g.rnd.Intn(4))}
		}
		out = append(out, p)
	}
	return out
}

func (g *generator) changePartition(t Topic) []record.Message {
	p, _ := t.Partition(kafka.PartitionID(g.rnd.Intn(t.NumPartitions())))
	m := record.NewPartitionChange()
	m.PartitionID, m.TopicID = p.ID, t.ID()
	if g.rnd.Intn(2) == 0 {
		m.ISR = g.subset(p.Replicas)
	}
	if g.rnd.Intn(2) == 0 {
		m.Leader = append(p.Replicas, kafka.NoNode)[g.rnd.Intn(len(p.Replicas)+1)]
	}
	if g.rnd.Intn(3) == 0 {
		m.EligibleLeaderReplicas = g.subset(p.Replicas)
		m.LastKnownELR = g.nodes(1) // may be no replica: the wide form
	}
	if g.rnd.Intn(4) == 0 {
		m.Replicas = g.nodes(1 + g.rnd.Intn(6))
		m.AddingReplicas, m.RemovingReplicas = g.subset(m.Replicas[:1]), []kafka.NodeID{}
		m.Directories = make([]kafka.DirectoryID, len(m.Replicas))
	}
	if g.rnd.Intn(4) == 0 {
		m.LeaderRecoveryState = int8(g.rnd.Intn(2))
	}
	return []record.Message{m}
}

func (g *generator) broker(img *Image) []record.Message {
	id := kafka.NodeID(1 + g.rnd.Intn(8))
	b := img.Broker(id)
	if b == nil || g.rnd.Intn(4) == 0 {
		m := record.NewRegisterBroker()
		m.BrokerID, m.BrokerEpoch = id, kafka.BrokerEpoch(g.rnd.Intn(1000))
		m.EndPoints = []record.BrokerEndpoint{{Name: "B", Host: "h", Port: 1}, {Name: "A", Host: "h", Port: 2}}
		m.LogDirs = []kafka.DirectoryID{{1}, {2}}
		return []record.Message{m}
	}
	switch g.rnd.Intn(4) {
	case 0:
		return []record.Message{&record.UnregisterBroker{BrokerID: id, BrokerEpoch: b.Epoch}}
	case 1:
		return []record.Message{&record.FenceBroker{ID: id, Epoch: b.Epoch}}
	case 2:
		return []record.Message{&record.UnfenceBroker{ID: id, Epoch: b.Epoch}}
	}
	m := record.NewBrokerRegistrationChange()
	m.BrokerID, m.BrokerEpoch, m.Fenced, m.InControlledShutdown = id, b.Epoch, int8(g.rnd.Intn(3)-1), int8(g.rnd.Intn(2))
	return []record.Message{m}
}

func start(t testing.TB) *Image {
	t.Helper()
	d := NewDelta(Empty())
	for _, m := range []record.Message{&record.FeatureLevel{Name: FeatureMetadataVersion, FeatureLevel: int16(LatestVersion)}, &record.FeatureLevel{Name: FeatureELR, FeatureLevel: 1}} {
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	return d.Apply(Provenance{})
}

// HC-038: on random histories the image by deltas, the image by a snapshot at
// any cut and the image by one great delta are the same; so are their indexes.
// Diff against an older image names exactly what changed. Fails if loading a
// snapshot merges instead of replacing.
func TestHC038DeltasEqualSnapshot(t *testing.T) {
	for seed := range int64(30) {
		g := &generator{rnd: rand.New(rand.NewSource(seed))}
		img := start(t)
		first, all := img, NewDelta(img)
		var cut *Image
		for step := range 150 {
			before := img.Hash()
			old := img
			d := NewDelta(img)
			for _, m := range g.next(img) {
				if err := d.Replay(m); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
				if err := all.Replay(m); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
			img = d.Apply(Provenance{EndOffset: kafka.Offset(step)})
			if old.Hash() != before {
				t.Fatalf("seed %d step %d: the base image changed", seed, step)
			}
			if step == 70 {
				cut = img
				img = reload(t, img)
			}
		}
		loaded := reload(t, img)
		checkSame(t, fmt.Sprint("snapshot, seed ", seed), loaded, img)
		checkSame(t, fmt.Sprint("one delta, seed ", seed), all.Apply(Provenance{}), img)
		checkIndex(t, img)
		checkIndex(t, loaded)
		checkDiff(t, first, loaded)
		checkDiff(t, cut, loaded)
		checkDiff(t, loaded, cut)
	}
}

// checkDiff applies a Diff by hand to the topics and brokers of from.
func checkDiff(t *testing.T, from, to *Image) {
	t.Helper()
	d := Diff(from, to)
	names := map[kafka.TopicID]bool{}
	from.EachTopic(func(x Topic) bool { names[x.ID()] = true; return true })
	for _, c := range d.Topics() {
		if c.Deleted() {
			delete(names, c.ID())
		} else {
			names[c.ID()] = true
		}
		for _, p := range c.Partitions {
			pc := c.Partition(p)
			if !pc.Created && !pc.Removed && samePartition(&pc.Before, &pc.After) {
				t.Fatalf("%s-%d did not change", c.ID(), p)
			}
		}
	}
	n := 0
	to.EachTopic(func(x Topic) bool {
		n++
		if !names[x.ID()] {
			t.Fatalf("topic %s is missing in the diff", x.Name())
		}
		return true
	})
	if n != len(names) {
		t.Fatalf("%d topics after the diff, want %d", len(names), n)
	}
}

// A delta that is thrown away leaves no trace; two deltas of one image do not
// see each other.
func TestForkedDeltasAreIndependent(t *testing.T) {
	g := &generator{rnd: rand.New(rand.NewSource(5))}
	img := start(t)
	for step := range 200 {
		abandoned := NewDelta(img)
		for range 3 {
			for _, m := range (&generator{rnd: rand.New(rand.NewSource(int64(step))), topics: 5000 + step*10}).next(img) {
				_ = abandoned.Replay(m)
			}
		}
		d := NewDelta(img)
		for _, m := range g.next(img) {
			if err := d.Replay(m); err != nil {
				t.Fatal(err)
			}
		}
		want := reload(t, img)
		abandoned.Apply(Provenance{})
		checkSame(t, "base", img, want)
		img = d.Apply(Provenance{})
	}
	checkIndex(t, img)
}

// HC-042, HC-033: records of a transaction show after its end or never, and no
// snapshot is made inside. Fails if Replay applies records before the end.
func TestHC042NoPartOfATransactionShows(t *testing.T) {
	for _, abort := range []bool{false, true} {
		g := &generator{rnd: rand.New(rand.NewSource(1))}
		img := start(t)
		before := img.NumTopics()
		steps := []record.Message{&record.BeginTransaction{}}
		for range 3 {
			steps = append(steps, g.createTopic()...)
		}
		if abort {
			steps = append(steps, &record.AbortTransaction{})
		} else {
			steps = append(steps, &record.EndTransaction{})
		}
		for i, m := range steps {
			d := NewDelta(img)
			if err := d.Replay(m); err != nil {
				t.Fatal(err)
			}
			img = d.Apply(Provenance{EndOffset: kafka.Offset(i)})
			if i < len(steps)-1 {
				if img.NumTopics() != before || !img.InTransaction() {
					t.Fatalf("step %d: %d topics show", i, img.NumTopics())
				}
				err := img.WriteSnapshot(func(record.Message, int16) error { return nil })
				if !errors.Is(err, ErrUnwritable) {
					t.Fatalf("step %d: HC-033: snapshot inside a transaction: %v", i, err)
				}
			}
		}
		want := before + 3
		if abort {
			want = before
		}
		if img.NumTopics() != want || img.InTransaction() {
			t.Errorf("abort %v: %d topics, want %d", abort, img.NumTopics(), want)
		}
	}
}

// Two deltas that go on with one open transaction do not share its records.
// Fails if the pending records of the base are appended to in place.
func TestOpenTransactionForks(t *testing.T) {
	img := start(t)
	topic := func(n byte) record.Message {
		return &record.Topic{Name: string([]byte{'t', n}), TopicID: kafka.TopicID{n}}
	}
	grow := func(from *Image, ms ...record.Message) *Image {
		d := NewDelta(from)
		for _, m := range ms {
			if err := d.Replay(m); err != nil {
				t.Fatal(err)
			}
		}
		return d.Apply(Provenance{})
	}
	// Three pending records leave room for a fourth in the slice.
	img = grow(img, &record.BeginTransaction{}, topic('1'), topic('2'), topic('3'))
	a, b := grow(img, topic('a')), grow(img, topic('b'))
	a, b = grow(a, &record.EndTransaction{}), grow(b, &record.EndTransaction{})
	if !a.TopicByName("ta").Exists() || a.TopicByName("tb").Exists() || !b.TopicByName("tb").Exists() {
		t.Error("the forks share their records")
	}
}

// Trap 4: the leader tag raises the leader epoch even if the leader stays; the
// partition epoch rises with every change. Fails if the epoch rises only when
// the leader is another.
func TestTrap4LeaderTagBumpsTheEpoch(t *testing.T) {
	p := record.NewPartition()
	p.TopicID, p.PartitionID, p.Replicas, p.ISR = kafka.TopicID{1}, 0, []kafka.NodeID{1, 2}, []kafka.NodeID{1, 2}
	p.Leader, p.LeaderEpoch, p.PartitionEpoch = 1, 5, 7
	d := NewDelta(start(t))
	for _, m := range []record.Message{&record.Topic{Name: "t", TopicID: kafka.TopicID{1}}, p} {
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	img := d.Apply(Provenance{})
	for _, c := range []struct {
		leader, wantLeader kafka.NodeID
		wantEpoch          kafka.Epoch
	}{{NoLeaderChange, 1, 5}, {1, 1, 6}, {2, 2, 6}, {kafka.NoNode, kafka.NoNode, 6}} {
		m := record.NewPartitionChange()
		m.TopicID, m.PartitionID, m.Leader = kafka.TopicID{1}, 0, c.leader
		d := NewDelta(img)
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
		got, _ := d.Apply(Provenance{}).TopicByName("t").Partition(0)
		if got.Leader != c.wantLeader || got.LeaderEpoch != c.wantEpoch || got.PartitionEpoch != 8 {
			t.Errorf("leader tag %d: leader %d epoch %d/%d, want %d %d/8", c.leader, got.Leader, got.LeaderEpoch, got.PartitionEpoch, c.wantLeader, c.wantEpoch)
		}
	}
}

// HC-044 and HC-045: what contradicts the state is an error, also when the
// contradiction arose earlier in the same delta.
func TestHC044RecordAboutDeletedTopic(t *testing.T) {
	topic := kafka.TopicID{1}
	part := func() *record.Partition {
		p := record.NewPartition()
		p.TopicID, p.PartitionID, p.Replicas, p.Leader = topic, 0, []kafka.NodeID{1}, 1
		p.EligibleLeaderReplicas = []kafka.NodeID{1}
		return p
	}
	change := func() *record.PartitionChange {
		c := record.NewPartitionChange()
		c.TopicID, c.PartitionID = topic, 0
		return c
	}
	broker := record.NewRegisterBroker()
	broker.BrokerID, broker.BrokerEpoch = 1, 5
	base := NewDelta(start(t))
	for _, m := range []record.Message{&record.Topic{Name: "t", TopicID: topic}, part(), broker} {
		if err := base.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	img := base.Apply(Provenance{})
	remove := &record.RemoveTopic{TopicID: topic}
	bad := part()
	bad.Directories = make([]kafka.DirectoryID, 3)
	huge := part()
	huge.PartitionID = 1 << 30
	for name, seq := range map[string][]record.Message{
		"change after remove":    {remove, change()},
		"partition after remove": {remove, part()},
		"remove twice":           {remove, remove},
		"clear ELR by name":      {remove, &record.ClearELR{TopicName: "t"}},
		"topic twice":            {&record.Topic{Name: "t", TopicID: kafka.TopicID{2}}},
		"unknown topic":          {&record.RemoveTopic{TopicID: kafka.TopicID{9}}},
		"wrong broker epoch":     {&record.FenceBroker{ID: 1, Epoch: 4}},
		"unknown broker":         {&record.UnfenceBroker{ID: 2, Epoch: 4}},
		"directories":            {bad},
		"huge partition":         {huge},
		"end without begin":      {&record.EndTransaction{}},
		"begin twice":            {&record.BeginTransaction{}, &record.BeginTransaction{}},
		"unknown ACL":            {&record.RemoveAccessControlEntry{}},
		"old metadata.version":   {&record.FeatureLevel{Name: FeatureMetadataVersion, FeatureLevel: 3}},
		"not a metadata record":  {record.NewVoters()},
		"producer ids go back":   {&record.ProducerIDs{NextProducerID: 10}, &record.ProducerIDs{NextProducerID: 9}},
	} {
		d := NewDelta(img)
		for i, m := range seq {
			err := d.Replay(m)
			if last := i == len(seq)-1; (err != nil) != last {
				t.Errorf("%s: record %d: %v", name, i, err)
			}
		}
	}
	d := NewDelta(img)
	for _, m := range []record.Message{remove, &record.ClearELR{}} {
		if err := d.Replay(m); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.Apply(Provenance{}); got.NumTopics() != 0 || got.NumPartitions() != 0 || got.index.Len() != 0 {
		t.Error("ClearELR brought the removed topic back")
	}
}

// Every level can be written and read; what it cannot carry is refused.
func TestSnapshotAtEveryVersion(t *testing.T) {
	for v := MinVersion; v <= maxVersion; v++ {
		d := NewDelta(Empty())
		reg := record.NewRegisterBroker()
		reg.BrokerID = 1
		part := record.NewPartition()
		part.TopicID, part.PartitionID, part.Replicas, part.ISR, part.Leader = kafka.TopicID{1}, 0, []kafka.NodeID{1}, []kafka.NodeID{1}, 1
		for _, m := range []record.Message{&record.FeatureLevel{Name: FeatureMetadataVersion, FeatureLevel: int16(v)}, reg, &record.Topic{Name: "t", TopicID: kafka.TopicID{1}}, part} {
			if err := d.Replay(m); err != nil {
				t.Fatal(err)
			}
		}
		img := d.Apply(Provenance{})
		checkSame(t, v.String(), reload(t, img), img)
		if got, ok := ParseVersion(v.String()); !ok || got != v {
			t.Errorf("ParseVersion(%s) = %d", v, got)
		}
	}
}

func TestLookalikeAndOrder(t *testing.T) {
	img := start(t)
	d := NewDelta(img)
	for i, name := range []string{"b", "a.b", "c_d", "a"} {
		if err := d.Replay(&record.Topic{Name: name, TopicID: kafka.TopicID{byte(i + 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	img = d.Apply(Provenance{})
	for name, want := range map[string]string{"a_b": "a.b", "c.d": "c_d", "a.b": "", "ab": "", "a.bb": ""} {
		if got, found := img.Lookalike(name); found != (want != "") || found && got != want {
			t.Errorf("Lookalike(%q) = %q, %v", name, got, found)
		}
	}
	var names []string
	img.EachTopicFrom("a.b", func(x Topic) bool { names = append(names, x.Name()); return true })
	if !slices.Equal(names, []string{"a.b", "b", "c_d"}) {
		t.Errorf("order %v", names)
	}
}
