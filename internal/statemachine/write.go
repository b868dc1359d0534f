package statemachine

import (
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/record"
)

// writer collects the records that have been replayed and not yet appended.
// There are two batches at most: an event whose records do not fit into the
// first goes into the second, and both are appended by one write.
type writer struct {
	end     kafka.Offset // of the log
	tip     kafka.Offset // the next offset to reserve
	closed  []batch.Batch
	bytes   int // of closed
	builder *batch.Builder

	buf        []byte // memory of the first batch
	key, value []byte
}

func (w *writer) empty() bool { return w.tip == w.end }

func (w *writer) size() int {
	if w.builder == nil {
		return w.bytes
	}
	return w.bytes + w.builder.Size()
}

// put adds records at the tip, in one batch of at most limit bytes, and reports
// false if that cannot be. The tip stays.
func (w *writer) put(o *Options, wall kafka.WallMs, records []coordinator.Record) bool {
	limit := o.Log.MaxBatchBytes()
	if w.builder != nil {
		mark := w.builder.Mark()
		if w.encode(o, wall, records); w.builder.Size() <= limit {
			return true
		}
		w.builder.Rewind(mark)
		w.close()
	}
	buf := w.buf
	if len(w.closed) > 0 {
		buf = nil
	}
	w.builder = batch.NewBuilder(buf, w.tip, o.Epoch)
	w.builder.Codec = o.Codec
	if w.encode(o, wall, records); w.builder.Size() <= limit {
		return true
	}
	w.builder = nil
	return false
}

func (w *writer) encode(o *Options, wall kafka.WallMs, records []coordinator.Record) {
	for i := range records {
		r := &records[i]
		w.key = record.AppendKey(w.key[:0], r.Key)
		var value []byte
		if r.Value != nil {
			w.value = record.AppendValue(w.value[:0], r.Value, r.Version)
			value = w.value
		}
		w.builder.Add(wall, w.key, value)
	}
	if cap(w.value) > o.Log.MaxBatchBytes() {
		w.value = nil // it was refused; each partition would keep the memory of its largest
	}
}

func (w *writer) close() {
	if w.builder != nil {
		b := w.builder.Finish()
		w.closed, w.bytes = append(w.closed, b), w.bytes+len(b)
		w.builder = nil
	}
}

// reset forgets what was collected, which ends at end now. Its memory is kept.
func (w *writer) reset(end kafka.Offset, keep int) {
	if len(w.closed) > 0 && cap(w.closed[0]) <= keep {
		w.buf = w.closed[0][:0]
	}
	clear(w.closed)
	w.closed, w.bytes, w.builder, w.end, w.tip = w.closed[:0], 0, nil, end, end
}

// step has the core decide on one event at the tip.
func (m *Machine) step(e *event) {
	if m.core != nil && m.write.size() >= m.opts.Log.MaxBatchBytes() {
		m.flush() // before the step: what is pending must not fail with it
	}
	if m.core == nil {
		if e.asker != nil {
			m.mu.Lock()
			code := m.refusal()
			m.mu.Unlock()
			e.asker.Answer(nil, code)
		}
		return
	}
	if e.asker != nil && e.asker.Gone() {
		e.asker.Answer(nil, kafka.ErrNotCoordinator)
		return
	}
	now := m.opts.Now()
	m.out.Reset()
	if e.asker == nil {
		m.core.Step(now, e.note, &m.out)
		m.take(now)
		return
	}
	m.lastToken++
	token := m.lastToken
	m.asked[token] = e.asker
	e.request.Token = token
	m.core.Step(now, e.request, &m.out)
	m.take(now)
	if m.asked[token] != nil {
		e.asker.Waits()
	}
}

// take does what the core said in m.out: its records are replayed and wait for
// the append, its replies wait for the commit of everything before them.
func (m *Machine) take(now kafka.Now) {
	for n := 0; len(m.out.Records) > 0 && !m.write.put(&m.opts, now.Wall, m.out.Records); n++ {
		if n == maxReverts {
			m.reload("what it has to say to a refusal is refused, too")
			return
		}
		m.answer(m.out.Replies, kafka.ErrRecordListTooLarge)
		m.opts.Logger.Warn("records of one event are too large for a batch", "partition", m.opts.Name, "records", len(m.out.Records), "max.message.bytes", m.opts.Log.MaxBatchBytes())
		m.back.Reset()
		m.core.Refuse(now, kafka.ErrRecordListTooLarge, &m.back)
		m.out, m.back = m.back, m.out
	}
	for i := range m.out.Records {
		r := &m.out.Records[i]
		if err := m.core.Replay(m.write.tip, kafka.NoProducerID, r.Key, r.Value); err != nil {
			m.reload("a record of its own cannot be replayed", "error", err)
			return
		}
		m.write.tip++
	}
	due := now.Mono.Add(m.opts.CommitTimeout)
	for _, r := range m.out.Replies {
		m.held.add(reply{asker: m.claim(r.Token), body: r.Body, upTo: m.write.tip, due: due})
	}
	if m.write.empty() {
		m.settle()
	}
}

// settle: nothing that was decided can be taken back any more.
func (m *Machine) settle() {
	m.core.Appended()
	m.held.settle()
}

// claim takes a request that the core answers.
func (m *Machine) claim(token uint64) Asker {
	a := m.asked[token]
	if a == nil {
		panic(fmt.Sprintf("statemachine: %s: a core answers request %d, which does not wait", m.opts.Name, token))
	}
	delete(m.asked, token)
	return a
}

// answer fails the requests of replies that are not sent.
func (m *Machine) answer(replies []coordinator.Reply, code kafka.ErrorCode) {
	for _, r := range replies {
		m.claim(r.Token).Answer(nil, code)
	}
}

// flush appends what is pending. What cannot be appended is taken back; what the
// core says to that may be records again.
func (m *Machine) flush() {
	for tries := 0; m.core != nil && !m.write.empty(); tries++ {
		now := m.opts.Now()
		w := &m.write
		w.close()
		end, code := m.opts.Log.Append(m.opts.Epoch, w.end, now.Wall, w.closed...)
		switch {
		case code == 0 && end == w.tip:
			if m.failing {
				m.failing = false
				m.opts.Logger.Info("coordinator writes again", "partition", m.opts.Name)
			}
			w.reset(end, m.opts.Log.MaxBatchBytes())
			m.settle()
			return
		case end != w.end:
			m.reload("its log ends where it should not", "end", end, "want", w.end, "code", code)
			return
		case tries == maxReverts:
			m.reload("it cannot write, not even what it has to say to that", "code", code)
			return
		}
		m.revert(now, code)
	}
}

// revert takes back everything that was decided since the last append.
func (m *Machine) revert(now kafka.Now, code kafka.ErrorCode) {
	if !m.failing {
		m.failing = true
		m.opts.Logger.Warn("coordinator cannot write; it tries again with each request", "partition", m.opts.Name, "code", code)
	}
	m.write.reset(m.write.end, m.opts.Log.MaxBatchBytes())
	for _, r := range m.held.takeUnsettled() {
		r.asker.Answer(nil, code)
	}
	m.out.Reset()
	if mutantKeepRefused {
		m.settle()
		return
	}
	m.core.Revert(now, code, &m.out)
	m.take(now)
}
