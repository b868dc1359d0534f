package quorum

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/raftwire"
	"moldau/internal/vfs"
	"moldau/internal/wire"
)

const goldenQuorum = "../record/testdata/golden/quorum/"

type exchange struct {
	from, to     kafka.NodeID
	key, version int16
	req, resp    []byte // bodies
}

func (x exchange) String() string {
	return fmt.Sprintf("API %d version %d from %d to %d", x.key, x.version, x.from, x.to)
}

func recordedExchanges(t testing.TB) (list []exchange) {
	t.Helper()
	f, err := os.Open("testdata/exchanges.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var x exchange
		var req, resp string
		if _, err := fmt.Sscan(sc.Text(), &x.from, &x.to, &x.key, &x.version, &req, &resp); err != nil {
			t.Fatal(err)
		}
		x.req, x.resp = unhex(t, req), unhex(t, resp)
		flexible := func(key, version int16) bool {
			r := kmsg.RequestForKey(key)
			r.SetVersion(version)
			return r.IsFlexible()
		}
		if _, x.req, err = wire.ParseHeader(x.req, flexible); err != nil {
			t.Fatal(err)
		}
		x.resp = x.resp[5:] // correlation id, tags
		list = append(list, x)
	}
	return list
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var recordedCodec = raftwire.Codec{Listener: "CONTROLLER"}

func (x exchange) request(t testing.TB) raft.Body {
	t.Helper()
	req := kmsg.RequestForKey(x.key)
	req.SetVersion(x.version)
	if err := req.ReadFrom(x.req); err != nil {
		t.Fatal(err)
	}
	body, refusal := recordedCodec.ParseRequest(req)
	if refusal != nil {
		t.Fatalf("%s is refused: %+v", x, refusal)
	}
	return body
}

func (x exchange) answer(t testing.TB) raft.Body {
	t.Helper()
	resp := kmsg.ResponseForKey(x.key)
	resp.SetVersion(x.version)
	if err := resp.ReadFrom(x.resp); err != nil {
		t.Fatal(err)
	}
	body, err := recordedCodec.ParseResponse(resp)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// compare encodes our answer as the one that was recorded.
func (x exchange) compare(t *testing.T, got raft.Body) {
	t.Helper()
	if b := recordedCodec.Response(got, x.version).AppendTo(nil); !bytes.Equal(b, x.resp) {
		t.Errorf("%s\nrequest %+v\nkafka   %+v\nours    %+v", x, x.request(t), x.answer(t), got)
	}
}

// recordedLog is the whole metadata log, and the voters of its 0-0 checkpoint.
type recordedLog struct {
	batches []raft.Batch
	voters  []raft.Control
}

func readRecordedLog(t testing.TB) (l recordedLog) {
	t.Helper()
	var next kafka.Offset
	for _, node := range []string{"1", "3"} { // node 3 has lived longest, but trimmed its log
		files, _ := filepath.Glob(goldenQuorum + node + "/" + Folder + "/*.log*")
		slices.Sort(files)
		for _, f := range files {
			buf, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			list, err := parseBatches(buf)
			if err != nil {
				t.Fatal(f, err)
			}
			for _, b := range list {
				if b.Base == next {
					l.batches, next = append(l.batches, b), b.Last+1
				}
			}
		}
	}
	mem := vfs.NewMem()
	copyInto(t, mem, goldenQuorum+"1/"+Folder+"/00000000000000000000-0000000000.checkpoint.deleted", "boot")
	boot, err := readSnapshot(mem, "boot", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.voters = boot.Control
	return l
}

func copyInto(t testing.TB, fsys vfs.FS, from, to string) {
	t.Helper()
	buf, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFileAtomic(fsys, to, buf); err != nil {
		t.Fatal(err)
	}
}

// records gives the log's bytes of [from, to).
func (l *recordedLog) records(from, to kafka.Offset) (out []byte) {
	for _, b := range l.batches {
		if b.Base >= from && b.Base < to {
			out = append(out, b.Bytes...)
		}
	}
	return out
}

func (l *recordedLog) voterSet() raft.VoterSet {
	for _, c := range l.voters {
		if c.Voters != nil {
			return *c.Voters
		}
	}
	return raft.VoterSet{}
}

// recordedNode is one of the replicas, played by our core.
type recordedNode struct {
	t    testing.TB
	log  *recordedLog
	core *raft.Core
	now  kafka.Now
	out  raft.Effects // of the last step
}

// newRecordedNode makes a voter; disk says what is beyond the 0-0 checkpoint.
func newRecordedNode(t testing.TB, l *recordedLog, id kafka.NodeID, disk raft.Restored) *recordedNode {
	t.Helper()
	v, ok := l.voterSet().Find(id)
	if !ok {
		t.Fatalf("node %d is no voter", id)
	}
	disk.Control = append(slices.Clone(l.voters), disk.Control...)
	n := &recordedNode{t: t, log: l, core: raft.New(raft.Options{
		ClusterID: "bW9sZGF1LXJlZmVyZW5jZQ", Self: v.Key, Endpoints: v.Endpoints, MinKRaft: v.MinKRaft, MaxKRaft: v.MaxKRaft,
		CanBecomeVoter: true, ElectionTimeout: time.Second, ElectionBackoffMax: time.Second, FetchTimeout: 2 * time.Second,
		RequestTimeout: 2 * time.Second, RetryBackoff: 20 * time.Millisecond, FetchMaxWait: 500 * time.Millisecond, FetchMaxBytes: 1 << 20,
	}, disk)}
	n.step(raft.Start{})
	return n
}

// step performs the flush that a step asks for, too.
func (n *recordedNode) step(ev raft.Event) {
	n.t.Helper()
	n.out = raft.Effects{}
	n.core.Step(n.now, ev, &n.out)
	flush := n.out.Flush
	for flush != nil && n.out.Fatal == nil {
		var more raft.Effects
		n.core.Step(n.now, raft.Flushed{Flush: *flush}, &more)
		n.out.Replies = append(n.out.Replies, more.Replies...)
		flush = more.Flush
	}
	if n.out.Fatal != nil {
		n.t.Fatal(n.out.Fatal)
	}
}

// ask gives the answer to a request, nil if it waits.
func (n *recordedNode) ask(body raft.Body) raft.Body {
	n.t.Helper()
	n.step(raft.Request{Token: 7, Body: body})
	return n.reply()
}

func (n *recordedNode) reply() raft.Body {
	for _, r := range n.out.Replies {
		if r.Token == 7 {
			return r.Body
		}
	}
	return nil
}

// wake lets the time of the core's deadline come.
func (n *recordedNode) wake() {
	n.t.Helper()
	n.now.Mono = n.core.Deadline()
	n.step(raft.DeadlineReached{})
}

// elect makes node 2 the leader of epoch 1. each sees what it asks others, and
// gives the answers; that node 3 is quicker than node 1 is recorded, too.
func (n *recordedNode) elect(each func(raft.Outgoing) raft.Body) {
	n.t.Helper()
	for i := 0; n.core.Role() != raft.Leader; i++ {
		if i == 50 {
			n.t.Fatalf("no leader, but %s", n.core.Role())
		}
		var answers []raft.Response
		for _, r := range n.out.Requests {
			if body := each(r); body != nil {
				answers = append(answers, raft.Response{From: r.To, ID: r.ID, Body: body})
			}
		}
		if len(answers) == 0 {
			n.wake()
			continue
		}
		slices.SortFunc(answers, func(a, b raft.Response) int { return int(b.From - a.From) })
		n.step(answers[0]) // which are a majority with the node itself
	}
}

// grant answers votes as nodes do that know nothing.
func grant(r raft.Outgoing) raft.Body {
	if v, ok := r.Body.(*raft.VoteRequest); ok {
		return &raft.VoteResponse{Leadership: raft.Leadership{LeaderID: kafka.NoNode, LeaderEpoch: v.ReplicaEpoch}, Granted: true}
	}
	return nil
}

// fetched lets a voter tell that it has everything below offset.
func (n *recordedNode) fetched(id kafka.NodeID, offset kafka.Offset) {
	n.t.Helper()
	v, _ := n.log.voterSet().Find(id)
	epoch := kafka.Epoch(1)
	if offset == 0 {
		epoch = 0
	}
	n.step(raft.Request{Body: &raft.FetchRequest{
		Replica: v.Key, CurrentLeaderEpoch: 1, FetchOffset: offset, LastFetchedEpoch: epoch,
	}})
}

// appendUpTo appends the recorded batches below end. The removal of a voter is
// asked for.
func (n *recordedNode) appendUpTo(end kafka.Offset) {
	n.t.Helper()
	for _, b := range n.log.batches {
		if b.Base < n.core.EndOffset() || b.Last >= end {
			continue
		}
		if len(b.Control) == 0 {
			n.step(raft.Propose{Epoch: 1, Batches: []raft.Batch{b}})
			if n.out.Rejected != nil {
				n.t.Fatal(n.out.Rejected)
			}
			continue
		}
		n.fetched(1, n.core.EndOffset()) // no change while another is not committed
		gone, _ := n.log.voterSet().Find(3)
		n.step(raft.Request{Body: &raft.RemoveVoterRequest{Voter: gone.Key}})
		if n.out.VotersChange == nil || n.out.VotersChange.Base != b.Base {
			n.t.Fatalf("the removal at offset %d: %+v", b.Base, n.out.VotersChange)
		}
	}
	if n.core.EndOffset() != end {
		n.t.Fatalf("offset %d is inside a batch", end)
	}
}

// leaderFor makes node 2 as it was when it answered a fetch.
func leaderFor(t testing.TB, l *recordedLog, r *raft.FetchRequest, a *raft.FetchResponse) *recordedNode {
	t.Helper()
	n := newRecordedNode(t, l, 2, raft.Restored{})
	n.elect(grant)
	end := r.FetchOffset
	if list, err := parseBatches(a.Records); err != nil {
		t.Fatal(err)
	} else if len(list) > 0 {
		end = list[len(list)-1].Last + 1
	}
	end = max(end, a.HighWatermark, a.SnapshotID.Offset, a.LogStart)
	other := kafka.NodeID(1)
	if r.Replica.ID == 1 {
		other = 3
	}
	if end > n.core.EndOffset() {
		n.fetched(other, n.core.EndOffset())
		n.appendUpTo(end)
	}
	// If the fetch itself may have moved the high watermark, it has to.
	voters, _ := n.core.VotersAt(end)
	if a.HighWatermark > 0 && (a.HighWatermark != r.FetchOffset || !voters.Contains(r.Replica)) {
		n.fetched(other, a.HighWatermark)
	}
	if a.LogStart > 0 {
		id := kafka.OffsetAndEpoch{Offset: a.LogStart, Epoch: 1}
		n.step(raft.SnapshotCreated{ID: id})
		n.step(raft.LogStartMoved{Start: id})
	}
	return n
}

func copyGoldenFolder(t testing.TB, fsys vfs.FS, node string) {
	t.Helper()
	check(t, fsys.MkdirAll("data/"+Folder))
	names, _ := filepath.Glob(goldenQuorum + node + "/" + Folder + "/*")
	for _, name := range names {
		copyInto(t, fsys, name, "data/"+Folder+"/"+filepath.Base(name))
	}
}

func openGoldenFolder(t testing.TB, fsys vfs.FS) (*Store, *Recovered) {
	t.Helper()
	store, rec, err := OpenStore(StoreOptions{
		FS: fsys, Dir: "data",
		OpenLog: func(folder string) (Log, error) {
			return OpenSegments(fsys, folder, LogConfig{SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600_000}, func() kafka.WallMs { return 0 }, nil)
		},
		Warn: func(msg string, err error) { t.Errorf("%s: %v", msg, err) },
	}, nil)
	check(t, err)
	return store, rec
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
