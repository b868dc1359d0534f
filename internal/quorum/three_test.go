package quorum

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// mesh connects quorums in one process. Messages are delivered by goroutines of
// their own, in any order.
type mesh struct {
	mu    sync.Mutex
	nodes map[kafka.NodeID]*Quorum
	gone  map[kafka.NodeID]bool
	reply map[uint64]func(raft.Body)
	next  uint64
	// damage is how many parts of snapshots arrive with another bit.
	damage int
}

type meshPort struct {
	m  *mesh
	id kafka.NodeID
}

func (p meshPort) Request(r raft.Outgoing) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	from, to := p.m.nodes[p.id], p.m.nodes[r.To]
	if p.m.gone[r.To] {
		go from.Deliver(raft.RequestFailed{To: r.To, ID: r.ID})
		return
	}
	p.m.next++
	token := p.m.next
	p.m.reply[token] = func(b raft.Body) { from.Deliver(raft.Response{From: r.To, ID: r.ID, Body: b}) }
	go to.Deliver(raft.Request{Token: token, Body: r.Body})
}

func (p meshPort) Room() int { return 1 << 30 }

func (p meshPort) Reply(r raft.Reply) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if f := p.m.reply[r.Token]; f != nil && !p.m.gone[p.id] {
		delete(p.m.reply, r.Token)
		if part, ok := r.Body.(*raft.FetchSnapshotResponse); ok && len(part.Bytes) > 0 && p.m.damage > 0 {
			p.m.damage--
			part.Bytes[len(part.Bytes)/2] ^= 1
		}
		go f(r.Body)
	}
}

// threeVoters are nodes 1 to 3.
func threeVoters() raft.VoterSet {
	var voters []raft.Voter
	for id := kafka.NodeID(1); id <= 3; id++ {
		voters = append(voters, raft.Voter{Key: raft.ReplicaKey{ID: id, Dir: kafka.DirectoryID{15: byte(100 + id)}}, MaxKRaft: 1})
	}
	set, _ := raft.NewVoterSet(voters...)
	return set
}

// watched is a node of the mesh with what it has published.
type watched struct {
	*Quorum
	id      kafka.NodeID
	changed chan *metadata.Image
}

func startThree(t *testing.T) (*mesh, map[kafka.NodeID]*watched) {
	m, nodes := openThree(t, func(*Options) {})
	for _, n := range nodes {
		n.Start()
	}
	return m, nodes
}

// openThree opens three voters on fresh disks and starts none.
func openThree(t testing.TB, change func(*Options)) (*mesh, map[kafka.NodeID]*watched) {
	m := &mesh{nodes: map[kafka.NodeID]*Quorum{}, gone: map[kafka.NodeID]bool{}, reply: map[uint64]func(raft.Body){}}
	set := threeVoters()
	nodes := map[kafka.NodeID]*watched{}
	for _, v := range set.All() {
		mem := newDisk(t)
		if err := Format(FormatOptions{FS: mem, Dir: "data", KRaft: 1, Voters: set, Records: features(), Now: 1}); err != nil {
			t.Fatal(err)
		}
		opts := options(t, mem)
		opts.Raft.Self, opts.Raft.Endpoints, opts.Raft.Seed = v.Key, nil, uint64(v.Key.ID)
		opts.Raft.ElectionTimeout, opts.Raft.FetchTimeout = 150*time.Millisecond, 300*time.Millisecond
		opts.Raft.RequestTimeout, opts.Raft.FetchMaxWait = 300*time.Millisecond, 50*time.Millisecond
		opts.Net = meshPort{m, v.Key.ID}
		opts.Fatal = func(err error) { t.Error(err) }
		change(&opts)
		q, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{Quorum: q, id: v.Key.ID, changed: make(chan *metadata.Image, 1000)}
		q.Subscribe(func(_ *metadata.Delta, img *metadata.Image) { w.changed <- img })
		m.nodes[w.id], nodes[w.id] = q, w
	}
	return m, nodes
}

// until waits for an image that satisfies ok.
func (w *watched) until(t testing.TB, ok func(*metadata.Image) bool) *metadata.Image {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case img := <-w.changed:
			if ok(img) {
				return img
			}
		case <-limit:
			t.Fatalf("node %d: %+v", w.id, w.Describe())
		}
	}
}

// Three shells elect, replicate, publish the same state everywhere, and go on
// when the leader leaves. Fails if a follower publishes what is not committed,
// or if replay skips a batch.
func TestThreeNodes(t *testing.T) {
	m, nodes := startThree(t)
	boot := func(img *metadata.Image) bool { return img.Version() != 0 }
	for _, n := range nodes {
		n.until(t, boot)
	}
	for round := range 2 {
		for _, n := range nodes { // whoever does not lead refuses
			leader := n.Leader().Leader
			if leader == n.id || leader == kafka.NoNode {
				continue
			}
			c := make(chan error, 1)
			n.Submit(Context{}, createTopic("x"), func(_ any, err error) { c <- err })
			if err := <-c; !errors.Is(err, ErrNotController) {
				t.Errorf("node %d is not the leader: %v", n.id, err)
			}
		}
		var any *watched
		for _, n := range nodes {
			any = n
		}
		leader := nodes[any.Leader().Leader]
		if leader == nil {
			t.Fatalf("round %d: %+v", round, any.Describe())
		}
		q := &testQuorum{Quorum: leader.Quorum, t: t}
		if round == 0 {
			q.register()
		} else {
			hold := q.submit(createTopic("later")) // broker 1 is known to the new leader too
			if o := <-hold; o.err != nil {
				t.Fatal(o.err)
			}
		}
		end := leader.Image().Provenance().EndOffset
		for _, n := range nodes {
			if n == leader {
				continue
			}
			img := n.until(t, func(img *metadata.Image) bool { return img.Provenance().EndOffset >= end })
			if img.Provenance().EndOffset == end && img.Hash() != leader.Image().Hash() {
				t.Errorf("node %d has another state at offset %d", n.id, end)
			}
		}
		if round == 1 {
			break
		}
		m.mu.Lock()
		m.gone[leader.id] = true
		m.mu.Unlock()
		epoch := leader.Leader().Epoch
		q.stopNow()
		delete(nodes, leader.id)
		for _, n := range nodes {
			n.until(t, func(img *metadata.Image) bool { return img.Provenance().Epoch > epoch })
		}
	}
	for _, n := range nodes {
		q := &testQuorum{Quorum: n.Quorum, t: t}
		q.stopNow()
	}
}

// A voter that was away while the others wrote, made snapshots and trimmed
// their logs downloads the newest snapshot in parts, drops what it had, and
// goes on from there; so does its disk (HC-039). The first download is damaged on
// the way, and begins again. Fails if LoadSnapshot does not replace the image,
// ResetLog keeps the log, ReadSnapshot ignores the position, or sealed does not
// tell that a snapshot is bad.
func TestHC039LateVoterDownloadsSnapshot(t *testing.T) {
	var disk vfs.FS
	m, nodes := openThree(t, func(o *Options) {
		o.Snapshots = SnapshotConfig{MaxBytes: 1, RetentionBytes: 1, RetentionMs: -1}
		o.Raft.FetchMaxBytes, o.Raft.SnapshotMaxBytes = 700, 700
		if o.Raft.Self.ID == 3 {
			disk = o.FS
		}
	})
	late := nodes[3]
	m.gone[3] = true
	nodes[1].Start()
	nodes[2].Start()
	nodes[1].until(t, func(img *metadata.Image) bool { return img.Version() != 0 })
	leader := nodes[nodes[1].Leader().Leader]
	q := &testQuorum{Quorum: leader.Quorum, t: t}
	q.register()
	for i := range 20 {
		if err := topicError(<-q.submit(createTopic(fmt.Sprint("topic", i)))); err != nil {
			t.Fatal(err)
		}
	}
	leader.until(t, func(*metadata.Image) bool { return leader.Describe().LogStart > 10 })
	m.mu.Lock()
	m.gone[3], m.damage = false, 1
	m.mu.Unlock()
	late.Start()
	end := leader.Image().Provenance().EndOffset
	img := late.until(t, func(img *metadata.Image) bool { return img.Provenance().EndOffset >= end })
	if img.Provenance().EndOffset == end && img.Hash() != leader.Image().Hash() {
		t.Error("the late voter has another state")
	}
	if start := late.Describe().LogStart; start <= 10 {
		t.Errorf("the late voter's log starts at %d: it did not load a snapshot", start)
	}
	for _, n := range nodes {
		q := &testQuorum{Quorum: n.Quorum, t: t}
		q.stopNow()
	}
	_, rec, err := OpenStore(StoreOptions{FS: disk, Dir: "data", OpenLog: func(folder string) (Log, error) {
		return OpenSegments(disk, folder, LogConfig{SegmentBytes: 1 << 20, SegmentMs: 1 << 40}, func() kafka.WallMs { return 1 }, nil)
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Snapshot.Offset <= 10 || rec.Raft.Start.Offset < 10 || rec.Raft.End < end {
		t.Errorf("on the late voter's disk is %+v", rec.Raft)
	}
}

// Fails if mayVote does not look for other voters, or for a log, or not at the
// epoch.
func TestHC006QuorumStateOfAVoterIsMissing(t *testing.T) {
	disks := map[kafka.NodeID]Options{}
	_, nodes := openThree(t, func(o *Options) { disks[o.Raft.Self.ID] = *o })
	for _, n := range nodes {
		n.Start()
	}
	for _, n := range nodes {
		n.until(t, func(img *metadata.Image) bool { return img.Version() != 0 })
	}
	for _, n := range nodes {
		q := &testQuorum{Quorum: n.Quorum, t: t}
		q.stopNow()
	}
	o := disks[2]
	if err := o.FS.Remove("data/" + Folder + "/" + quorumStateFile); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.Is(err, ErrVoteForgotten) {
		t.Errorf("a voter that has lost its quorum-state opens: %v", err)
	}
	// An epoch that the log cannot have come near to: nobody would follow, or all
	// would, to where no epoch is left.
	name := "data/" + Folder + "/" + quorumStateFile
	far := encodeQuorumState(raft.ElectionState{Epoch: 1<<31 - 1, Leader: kafka.NoNode, Voted: raft.NoReplica}, 1, raft.VoterSet{})
	if err := vfs.WriteFileAtomic(o.FS, name, far); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.Is(err, ErrQuorumState) {
		t.Errorf("a voter whose quorum-state is at the end of all epochs opens: %v", err)
	}
}
