package quorum

import (
	"bytes"
	"slices"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/raft"
	"moldau/internal/raftwire"
	"moldau/internal/vfs"
)

// The exchanges between the replicas of an Apache Kafka 4.4 cluster, answered
// once more by our core. testdata/exchanges.txt.gz has one a line: who asked,
// who answered, API key, version, request and answer as frames in hex. The
// voters are 1, 2 and 3, node 4 is a broker; node 2 leads epoch 1 all the time.
// Node 1 is killed and comes back, the log is trimmed, node 4 loads a snapshot,
// voter 3 is removed.
//
// For each exchange the one who answered is made anew in the state that the
// recording implies; its answer must be the recorded frame, byte for byte. What
// timing decides is taken from the recorded answer and is part of that state:
// how far the leader's log reached, which high watermark it had before the
// request, how far the log was trimmed, and whether an empty answer came at once
// or after the wait.
//
// Compared are all exchanges about the log: 1434 Fetch (one fenced, one with a
// snapshot id, 694 with records, 26 to nodes that do not lead), 7 Vote, 2
// BeginQuorumEpoch, 1 FetchSnapshot, 1 RemoveRaftVoter. Kafka's controllers had
// no log that diverged and no EndQuorumEpoch in that time.

// Every recorded fetch and snapshot fetch at the leader. Fails if the leader
// counts the fetch of a removed voter, tells the high watermark before it has
// committed in its epoch, or keeps an answer although the high watermark moved.
func TestRecordedFetchesAreAnsweredAsByKafka(t *testing.T) {
	l := readRecordedLog(t)
	compared, waited, withRecords, lifted := 0, 0, 0, 0
	for _, x := range recordedExchanges(t) {
		if x.key != raftwire.KeyFetch || x.to != 2 {
			continue
		}
		r, a := x.request(t).(*raft.FetchRequest), x.answer(t).(*raft.FetchResponse)
		n := leaderFor(t, &l, r, a)
		before, asked := n.core.HighWatermark(), n.now.Mono
		got := n.ask(r)
		atOnce := a.Error != kafka.NoError || len(a.Records) > 0 || a.SnapshotID != raft.NoDivergence || a.HighWatermark > r.HighWatermark
		if !atOnce {
			if got != nil {
				t.Errorf("%s: %+v is answered at once, with nothing new: %+v", x, r, got)
				continue
			}
			for range 9 { // other deadlines come first
				if got == nil {
					n.wake()
					got = n.reply()
				}
			}
			if after := n.now.Mono.Sub(asked); after != r.MaxWait {
				t.Errorf("%s: an answer after %s, not %s", x, after, r.MaxWait)
			}
			waited++
		}
		f, ok := got.(*raft.FetchResponse)
		if !ok {
			t.Fatalf("%s: %+v has the answer %+v", x, r, got)
		}
		if len(a.Records) > 0 {
			// Kafka's answer ends with a segment at the latest.
			if want := l.records(r.FetchOffset, n.core.EndOffset()); f.Read.From != r.FetchOffset || f.Read.MaxBytes < len(a.Records) || !bytes.HasPrefix(want, a.Records) {
				t.Errorf("%s: to read is %+v, Kafka sent %d bytes", x, f.Read, len(a.Records))
			}
			f.Records = a.Records
			withRecords++
		}
		if n.core.HighWatermark() > before {
			lifted++
		}
		x.compare(t, f)
		compared++
	}
	if compared != 1408 || waited != 43 || withRecords != 694 || lifted != 1229 {
		t.Errorf("%d compared: %d waited, %d gave records, %d moved the high watermark", compared, waited, withRecords, lifted)
	}
}

// What nodes 1 and 3 answered before they knew a leader, and node 3 when it was
// a voter no more and asked itself. Fails if a replica refuses its own fetch
// instead of saying who leads, or if a vote raises the epoch before its check.
func TestRecordedFollowersAnswerAsKafkas(t *testing.T) {
	l := readRecordedLog(t)
	all := recordedExchanges(t)
	compared := map[int16]int{}
	for _, id := range []kafka.NodeID{1, 3} {
		n := newRecordedNode(t, &l, id, raft.Restored{})
		// In the order that the epochs and leaders of the answers tell.
		for _, want := range []struct {
			epoch, asked kafka.Epoch
			leader       kafka.NodeID
			begin        bool
		}{{0, 0, -1, false}, {1, 1, -1, false}, {1, 0, -1, false}, {1, 1, 2, true}} {
			for _, x := range all {
				if x.to != id || x.key == raftwire.KeyFetch && x.from == 3 && id == 3 {
					continue
				}
				got, asked, begin := recordedAnswer(t, x)
				if got.LeaderEpoch != want.epoch || got.LeaderID != want.leader || begin != want.begin || asked != want.asked {
					continue
				}
				x.compare(t, n.ask(x.request(t)))
				compared[x.key]++
			}
		}
	}
	// Node 3 as it was at the end.
	disk := raft.Restored{
		Election: &raft.ElectionState{Epoch: 1, Leader: 2, Voted: raft.NoReplica}, End: 965,
		Start: kafka.OffsetAndEpoch{Offset: 862, Epoch: 1}, Snapshot: kafka.OffsetAndEpoch{Offset: 916, Epoch: 1},
		Epochs: []kafka.OffsetAndEpoch{{Offset: 862, Epoch: 1}},
	}
	for _, b := range l.batches {
		disk.Control = append(disk.Control, b.Control...)
	}
	n := newRecordedNode(t, &l, 3, disk)
	for _, x := range all {
		if x.to == 3 && x.from == 3 {
			x.compare(t, n.ask(x.request(t)))
			compared[x.key]++
		}
	}
	if compared[raftwire.KeyVote] != 6 || compared[raftwire.KeyBeginQuorumEpoch] != 2 || compared[raftwire.KeyFetch] != 26 {
		t.Errorf("compared by API: %v", compared)
	}
}

func recordedAnswer(t testing.TB, x exchange) (got raft.Leadership, asked kafka.Epoch, begin bool) {
	t.Helper()
	switch r := x.request(t).(type) {
	case *raft.VoteRequest:
		return x.answer(t).(*raft.VoteResponse).Leadership, r.ReplicaEpoch, false
	case *raft.BeginQuorumEpochRequest:
		return x.answer(t).(*raft.BeginQuorumEpochResponse).Leadership, r.LeaderEpoch, true
	case *raft.FetchRequest:
		return x.answer(t).(*raft.FetchResponse).Leadership, r.CurrentLeaderEpoch, false
	}
	t.Fatalf("%s is for a leader", x)
	return
}

// The election as Kafka's node 2 made it: what it asks the others is the
// recorded frame, and so is the first batch of its epoch. Then the vote that it
// refuses as leader.
func TestRecordedElection(t *testing.T) {
	l := readRecordedLog(t)
	asked := map[string]exchange{}
	for _, x := range recordedExchanges(t) {
		if x.from == 2 && x.key != raftwire.KeyFetch {
			asked[string(x.req)] = x
		}
	}
	n := newRecordedNode(t, &l, 2, raft.Restored{})
	seen := map[string]bool{}
	check := func(r raft.Outgoing) raft.Body {
		if _, fetch := r.Body.(*raft.FetchRequest); fetch {
			return nil
		}
		v, err := raftwire.VersionsOf(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := recordedCodec.Request(r.Body, v.Max)
		if err != nil {
			t.Fatal(err)
		}
		raw := string(req.AppendTo(nil))
		x, ok := asked[raw]
		if !ok || x.to != r.To {
			t.Fatalf("Kafka did not ask node %d for %+v", r.To, r.Body)
		}
		seen[raw] = true
		return x.answer(t)
	}
	n.elect(check)
	lc, requests := n.out.LeaderChange, n.out.Requests
	if lc == nil {
		t.Fatal("no LeaderChange record")
	}
	slices.Reverse(lc.Granting) // Kafka's order is a hash set's
	first := l.batches[0]
	if got := encodeLeaderChange(lc, batch.Batch(first.Bytes).MaxTimestamp()); !bytes.Equal(got, first.Bytes) {
		t.Errorf("the first batch\nkafka % x\nours  % x", first.Bytes, got)
	}
	for _, r := range requests {
		check(r)
	}
	if len(seen) != len(asked) {
		t.Errorf("%d of the %d recorded requests were made", len(seen), len(asked))
	}
	for _, x := range recordedExchanges(t) {
		if x.key == raftwire.KeyVote && x.to == 2 {
			x.compare(t, n.ask(x.request(t)))
		}
	}
}

// The removal of voter 3: the record that the leader writes, and the answer once
// it is committed. Fails if the removed voter is counted for that commit.
func TestRecordedRemovalOfAVoter(t *testing.T) {
	l := readRecordedLog(t)
	i := slices.IndexFunc(l.batches, func(b raft.Batch) bool { return b.Base > 0 && len(b.Control) > 0 })
	at := l.batches[i]
	n := newRecordedNode(t, &l, 2, raft.Restored{})
	n.elect(grant)
	n.fetched(1, n.core.EndOffset())
	n.appendUpTo(at.Base)
	n.fetched(1, at.Base)
	count := 0
	for _, x := range recordedExchanges(t) {
		if x.key != raftwire.KeyRemoveVoter {
			continue
		}
		count++
		if got := n.ask(x.request(t)); got != nil {
			t.Fatalf("an answer before the removal is committed: %+v", got)
		}
		if got := encodeVotersChange(n.out.VotersChange, batch.Batch(at.Bytes).MaxTimestamp()); !bytes.Equal(got, at.Bytes) {
			t.Errorf("the record of the removal\nkafka % x\nours  % x", at.Bytes, got)
		}
		n.fetched(3, at.Last+1)
		if got := n.reply(); got != nil {
			t.Fatalf("node 3 was counted: %+v", got)
		}
		n.fetched(1, at.Last+1)
		x.compare(t, n.reply())
	}
	if count != 1 {
		t.Errorf("%d removals", count)
	}
}

// The part of a snapshot that Kafka's leader gave node 4, from our store on the
// leader's folder.
func TestRecordedSnapshotFetch(t *testing.T) {
	l := readRecordedLog(t)
	mem := vfs.NewMem()
	copyGoldenFolder(t, mem, "2")
	store, _ := openGoldenFolder(t, mem)
	defer func() { check(t, store.Close()) }()
	count := 0
	for _, x := range recordedExchanges(t) {
		if x.key != raftwire.KeyFetchSnapshot {
			continue
		}
		count++
		n := newRecordedNode(t, &l, 2, raft.Restored{})
		n.elect(grant)
		got := n.ask(x.request(t))
		check(t, fill(got, store, 1<<30))
		x.compare(t, got)
	}
	if count != 1 {
		t.Errorf("%d parts", count)
	}
}
