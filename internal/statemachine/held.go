package statemachine

import "moldau/internal/kafka"

// reply is an answer that waits for what was decided before it.
type reply struct {
	asker Asker
	body  any
	upTo  kafka.Offset // goes out when the high watermark is there
	due   kafka.Mono   // or else fails
}

// held are the replies that wait, in the order of both their offsets and their
// times. Those that were emitted since the last append are not settled: they
// fail if it fails.
type held struct {
	list    []reply
	first   int
	settled int // end of the settled ones
}

func (h *held) add(r reply) { h.list = append(h.list, r) }

func (h *held) settle() { h.settled = len(h.list) }

func (h *held) waiting() bool { return h.first < len(h.list) }

// due is when the first reply fails.
func (h *held) due() kafka.Mono {
	if !h.waiting() {
		return kafka.Never
	}
	return h.list[h.first].due
}

// pop takes the first reply, if it is settled and either committed or late.
func (h *held) pop(hw kafka.Offset, now kafka.Mono) (reply, bool) {
	if h.first >= h.settled {
		return reply{}, false
	}
	r := h.list[h.first]
	if r.upTo > hw && r.due > now && !mutantCommitUnseen {
		return reply{}, false
	}
	h.list[h.first] = reply{}
	h.first++
	switch {
	case h.first == len(h.list):
		h.list, h.first, h.settled = h.list[:0], 0, 0
	case h.first > len(h.list)/2: // amortised: each reply moves once at most
		n := copy(h.list, h.list[h.first:])
		clear(h.list[n:])
		h.list, h.settled, h.first = h.list[:n], h.settled-h.first, 0
	}
	return r, true
}

func (h *held) takeUnsettled() []reply {
	out := append([]reply(nil), h.list[h.settled:]...)
	clear(h.list[h.settled:])
	h.list = h.list[:h.settled]
	return out
}

func (h *held) takeAll() []reply {
	out := h.list[h.first:]
	*h = held{}
	return out
}

// release sends the replies that are committed, and fails those that were not
// in time: what they tell of may yet be committed.
func (m *Machine) release() {
	for {
		hw, now := m.opts.Log.HighWatermark(), m.opts.Now().Mono
		for r, ok := m.held.pop(hw, now); ok; r, ok = m.held.pop(hw, now) {
			if r.upTo <= hw || mutantCommitUnseen {
				r.asker.Answer(r.body, 0)
			} else {
				r.asker.Answer(nil, kafka.ErrRequestTimedOut)
			}
		}
		if !m.held.waiting() || m.stopWatch != nil {
			return
		}
		// News may have come before the watch: look once more.
		m.stopWatch = m.opts.Log.Watch(func() { m.poke(func() { m.news = true }) })
	}
}
