package quorum

import (
	"errors"
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
	"moldau/internal/record"
)

// appended is a batch that is in the log, replayed at the tip, and not yet
// committed.
type appended struct {
	base, end kafka.Offset
	bytes     int
	delta     *metadata.Delta
	image     *metadata.Image
}

// waiter is a reply that waits until everything below release is committed.
type waiter struct {
	release kafka.Offset
	done    func(any, error)
	resp    any
	err     error
}

var deadlineReached = controller.DeadlineReached{}

// Submit gives a request to the controller core. done is called once, perhaps
// before Submit returns, and if the request was decided, after everything that
// the answer rests on is committed. arrived is what Arrived gave.
func (q *Replica) Submit(body any, arrived kafka.Mono, done func(resp any, err error)) {
	switch {
	case q.failed != nil || q.closed:
		done(nil, ErrStopped)
	case q.ctl == nil || q.led == kafka.NoEpoch:
		done(nil, ErrNotController)
	default:
		q.nextTok++
		q.tokens[q.nextTok] = done
		q.control(controller.Request{Token: q.nextTok, Body: body, Arrived: arrived})
	}
}

// lead tells the controller that it is active: the image holds everything up
// to the leader's own first record (HC-016).
func (q *Replica) lead(epoch kafka.Epoch) {
	q.led, q.tip = epoch, q.image.Load()
	if q.ctl != nil {
		q.control(controller.BecameLeader{Epoch: epoch, Lost: q.lostLeader})
	}
	q.lostLeader = nil
}

// control is the write path: decide at the tip, replay at the tip, append;
// replies wait for the commit.
func (q *Replica) control(ev controller.Event) {
	if q.failed != nil {
		return
	}
	now := q.opts.Clock()
	var out controller.Effects
	q.ctl.Step(now, ev, q.tip, q.core.EndOffset(), &out)
	if out.KRaft != nil {
		if err := q.raiseKRaft(*out.KRaft); err != nil {
			for _, r := range out.Replies {
				q.hold(controller.Reply{Token: r.Token, Code: err.Code, Message: err.Message})
			}
			q.release()
			return
		}
	}
	if len(out.Batches) > 0 {
		batches, entries, err := q.prepare(now.Wall, out.Batches)
		if _, asked := ev.(controller.Request); asked && errors.Is(err, errTooLarge) {
			q.refuse(out.Replies, err)
			return
		}
		if err != nil {
			q.fail(err)
			return
		}
		n := len(q.pending)
		q.pending, q.tip = append(q.pending, entries...), entries[len(entries)-1].image
		if err := q.step(raft.Propose{Epoch: q.led, Batches: batches}); err != nil {
			epoch := q.led
			q.pending = q.pending[:min(n, len(q.pending))]
			q.revert()
			for _, r := range out.Replies {
				q.answer(r.Token, nil, ErrNotController)
			}
			// A controller that cannot write must not lead on (KAFKA-13104).
			q.step(raft.Resign{Epoch: epoch})
			return
		}
	}
	for _, r := range out.Replies {
		q.hold(r)
	}
	q.release()
}

// raiseKRaft changes kraft.version, which is the raft core's: it appends the
// records at once, or says why not.
func (q *Replica) raiseKRaft(u controller.KRaftUpgrade) *ReplyError {
	q.upgraded = nil
	if err := q.step(raft.Request{Body: &raft.UpgradeRequest{Level: u.Level, ValidateOnly: u.ValidateOnly}}); err != nil || q.upgraded == nil {
		return &ReplyError{Code: kafka.ErrNotController, Message: ErrNotController.Error()}
	}
	if r := q.upgraded; r.Error != 0 {
		return &ReplyError{Code: r.Error, Message: r.Message}
	}
	return nil
}

// ownAnswers keeps for this node what it asked of its own raft core.
type ownAnswers struct {
	Net
	q *Replica
}

// Reply implements Net.
func (n ownAnswers) Reply(r raft.Reply) {
	if u, ok := r.Body.(*raft.UpgradeResponse); ok {
		n.q.upgraded = u
		return
	}
	n.Net.Reply(r)
}

// errTooLarge: the records of one atomic batch take more bytes than the log
// allows. A client can ask for that with few records of long settings.
var errTooLarge = errors.New("excessively large request")

// refuse answers a request whose records cannot be written; it changes nothing.
func (q *Replica) refuse(replies []controller.Reply, why error) {
	for _, r := range replies {
		q.hold(controller.Reply{Token: r.Token, Code: kafka.ErrPolicyViolation, Message: why.Error()})
	}
	q.release()
}

// prepare encodes the batches at the end of the log and replays them.
func (q *Replica) prepare(now kafka.WallMs, list [][]controller.VersionedRecord) ([]raft.Batch, []appended, error) {
	var batches []raft.Batch
	var entries []appended
	next, img := q.core.EndOffset(), q.tip
	var value []byte
	for _, records := range list {
		bl := batch.NewBuilder(nil, next, q.led)
		delta := metadata.NewDelta(img)
		for _, r := range records {
			value = record.AppendMetadata(value[:0], r.Message, r.Version)
			bl.Add(now, nil, value)
			if err := delta.Replay(r.Message); err != nil {
				return nil, nil, fmt.Errorf("the controller decided on a record that does not apply at offset %d: %w", next, err)
			}
		}
		b := bl.Finish()
		if len(b) > maxBatchBytes {
			return nil, nil, fmt.Errorf("%w: %d bytes of metadata, more than %d; ask for less at a time", errTooLarge, len(b), maxBatchBytes)
		}
		img = delta.Apply(metadata.Provenance{EndOffset: b.NextOffset(), Epoch: q.led, TimestampMs: now})
		batches = append(batches, raft.Batch{Base: next, Last: b.LastOffset(), Epoch: q.led, Bytes: b})
		entries = append(entries, appended{base: next, end: b.NextOffset(), bytes: len(b), delta: delta, image: img})
		next = b.NextOffset()
	}
	return batches, entries, nil
}

// hold keeps a reply until all that it may rest on is committed: its own
// records, and everything the tip held when it was decided (Trap 1).
func (q *Replica) hold(r controller.Reply) {
	done := q.tokens[r.Token]
	if done == nil {
		return
	}
	delete(q.tokens, r.Token)
	w := waiter{release: q.core.EndOffset(), done: done, resp: r.Body}
	if r.Body == nil {
		w.err = &ReplyError{Code: r.Code, Message: r.Message}
	}
	if mutantReplyEarly {
		w.release = 0
	}
	q.waiting = append(q.waiting, w)
}

func (q *Replica) answer(token uint64, resp any, err error) {
	if done := q.tokens[token]; done != nil {
		delete(q.tokens, token)
		done(resp, err)
	}
}

// release sends the replies that have waited long enough. While this node
// leads, their offsets only rise.
func (q *Replica) release() {
	applied := q.image.Load().Provenance().EndOffset
	n := 0
	for n < len(q.waiting) && q.waiting[n].release <= applied {
		w := &q.waiting[n]
		w.done(w.resp, w.err)
		n++
	}
	clear(q.waiting[:n])
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
}

// revert goes back to the committed image and forgets what is soft.
func (q *Replica) revert() {
	q.led, q.tip = kafka.NoEpoch, q.image.Load()
	if !mutantSkipRevert {
		q.pending = nil
	}
	if q.ctl != nil {
		var out controller.Effects
		q.ctl.Step(q.opts.Clock(), controller.Resigned{}, q.tip, q.core.EndOffset(), &out)
	}
	q.failAll(ErrNotController)
}

// failAll fails every request whose outcome is not known.
func (q *Replica) failAll(err error) {
	waiting := q.waiting
	q.waiting = nil
	for _, w := range waiting {
		w.done(nil, err)
	}
	for token := range q.tokens {
		q.answer(token, nil, err)
	}
}
