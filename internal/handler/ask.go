package handler

// How a request is put to the coordinators of groups on this broker.

import (
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/statemachine"
)

// Groups finds the coordinators of groups.
type Groups interface {
	// Partition is the partition of __consumer_offsets that keeps a group.
	Partition(group string) kafka.PartitionID
	// Machine is the coordinator of a partition; nil if it is not on this broker.
	Machine(n kafka.PartitionID) *statemachine.Machine
	// Machines are all coordinators on this broker.
	Machines() []*statemachine.Machine
}

// InternalTopic is how an internal topic is created.
type InternalTopic struct {
	Partitions        int32
	ReplicationFactor int16
	SegmentBytes      string
}

// inquiry is a request whose answer needs those of one or several coordinators.
type inquiry struct {
	h      *Handler
	c      call
	left   atomic.Int32 // parts without an answer, and one for the asking itself
	finish func() kmsg.Response
	parts  int
}

// inquire begins an inquiry. finish makes the answer when all parts have theirs.
func (h *Handler) inquire(c *call, finish func() kmsg.Response) *inquiry {
	q := &inquiry{h: h, c: *c, finish: finish}
	q.left.Store(1)
	return q
}

// part is one question of an inquiry. It implements statemachine.Asker.
type part struct {
	q    *inquiry
	take func(body any, code kafka.ErrorCode)
}

// Gone implements statemachine.Asker.
func (p *part) Gone() bool { return p.q.c.Broken() }

// Waits implements statemachine.Asker: the request may wait for minutes, and the
// core has copied what it needs.
func (p *part) Waits() {
	if p.q.parts == 1 { // else another part may not have begun
		p.q.c.FreeFrame()
	}
}

// Answer implements statemachine.Asker.
func (p *part) Answer(body any, code kafka.ErrorCode) {
	p.take(body, code)
	if p.q.left.Add(-1) == 0 {
		go p.q.reply() // the runner serves other clients: a slow one must not hold it up
	}
}

func (q *inquiry) reply() { q.c.reply(q.finish()) }

// put asks a coordinator, nil if it is not here. The last of the puts must be
// followed by done.
func (q *inquiry) put(m *statemachine.Machine, body any, take func(body any, code kafka.ErrorCode)) {
	if m == nil {
		take(nil, kafka.ErrNotCoordinator)
		return
	}
	q.left.Add(1)
	m.Submit(coordinator.Request{Body: body, ClientID: string(q.c.ClientID), Host: clientHost(q.c.Peer.Host)}, &part{q: q, take: take})
}

// done ends the asking. If all answers are there, this goroutine replies.
func (q *inquiry) done() {
	if q.left.Add(-1) == 0 {
		q.reply()
	}
}

// ask puts a whole request to the coordinator of its group. If that gives no
// answer, refuse makes one of the code.
func (h *Handler) ask(c *call, groupID string, req kmsg.Request, refuse func(code kafka.ErrorCode) kmsg.Response) {
	h.askFor(c, groupID, req, refuse, func(resp kmsg.Response) kmsg.Response { return resp })
}

// askFor is ask for a request that differs from the client's; whole makes the
// answer of the coordinator's.
func (h *Handler) askFor(c *call, groupID string, req kmsg.Request, refuse func(code kafka.ErrorCode) kmsg.Response, whole func(kmsg.Response) kmsg.Response) {
	var resp kmsg.Response
	q := h.inquire(c, func() kmsg.Response { return whole(resp) })
	q.parts = 1
	q.put(h.coordinatorOf(groupID), req, func(body any, code kafka.ErrorCode) {
		if code != 0 {
			resp = refuse(refusalCode(code))
		} else {
			resp = body.(kmsg.Response)
		}
	})
	q.done()
}

func (h *Handler) coordinatorOf(groupID string) *statemachine.Machine {
	return h.opts.Groups.Machine(h.opts.Groups.Partition(groupID))
}

// refusalCode is what clients are told of a request that its coordinator could
// not serve (CoordinatorOperationExceptionHelper.handleOperationException).
func refusalCode(code kafka.ErrorCode) kafka.ErrorCode {
	if code == kafka.ErrNetworkException {
		return kafka.ErrCoordinatorLoadInProgress
	}
	return group.StorageError(code)
}

// clientHost is the client's address as Java prints it: without a name, and with
// all eight parts of an IPv6 address.
func clientHost(host string) string {
	a, err := netip.ParseAddr(host)
	if err != nil || a.Is4() {
		return "/" + host
	}
	if a.Is4In6() {
		return "/" + a.Unmap().String()
	}
	parts := strings.Split(a.WithZone("").StringExpanded(), ":")
	for i, p := range parts {
		if parts[i] = strings.TrimLeft(p, "0"); parts[i] == "" {
			parts[i] = "0"
		}
	}
	text := "/" + strings.Join(parts, ":")
	if a.Zone() != "" {
		text += "%" + a.Zone()
	}
	return text
}
