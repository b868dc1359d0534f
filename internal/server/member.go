package server

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
)

// member keeps this controller registered with the active one (KIP-919): the
// shell of lifecycle.Controller. A node that is a controller only is ready when
// it has the cluster's metadata.
type member struct {
	s   *Server
	inc kafka.IncarnationID

	poke chan struct{}
	done chan struct{}
	work sync.WaitGroup

	mu      sync.Mutex
	core    lifecycle.Controller
	waiting []lifecycle.ControllerEvent // at most the newest LogMoved, and an answer
	loaded  bool
}

func newMember(s *Server) *member {
	return &member{s: s, inc: kafka.IncarnationID(NewUUID()), poke: make(chan struct{}, 1), done: make(chan struct{})}
}

func (m *member) start() {
	m.work.Add(1)
	go m.run()
}

func (m *member) stop() {
	select {
	case <-m.done:
	default:
		close(m.done)
	}
	m.work.Wait()
}

// publish runs on the quorum's loop for each committed change.
func (m *member) publish(d *metadata.Delta, img *metadata.Image) {
	if len(d.Features())+len(d.Controllers()) == 0 {
		return
	}
	r := img.Controller(m.s.opts.Config.NodeID)
	m.tell(lifecycle.LogMoved{
		Supported: img.Version().CanRegisterControllers(), Registered: r != nil && r.IncarnationID == m.inc,
	})
	if !m.loaded && img.Version() != 0 {
		m.loaded = true
		if !m.s.opts.Config.Broker {
			m.s.opened.Store(true)
			close(m.s.ready)
		}
	}
}

// tell queues an event; a newer state of the log replaces an older one.
func (m *member) tell(ev lifecycle.ControllerEvent) {
	m.mu.Lock()
	if n := len(m.waiting); n > 0 {
		_, moved := ev.(lifecycle.LogMoved)
		if _, was := m.waiting[n-1].(lifecycle.LogMoved); moved && was {
			m.waiting = m.waiting[:n-1]
		}
	}
	m.waiting = append(m.waiting, ev)
	m.mu.Unlock()
	select {
	case m.poke <- struct{}{}:
	default:
	}
}

func (m *member) run() {
	defer m.work.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if at := m.core.Deadline(); at != kafka.Never {
			wait = max(at.Sub(m.s.clock().Mono), 0)
		}
		timer.Reset(wait)
		select {
		case <-m.done:
			return
		case <-m.poke:
		case <-timer.C:
			m.tell(lifecycle.ControllerDeadline{})
		}
		m.mu.Lock()
		events := m.waiting
		m.waiting = nil
		m.mu.Unlock()
		for _, ev := range events {
			if m.core.Step(m.s.clock(), ev) {
				m.register()
			}
		}
	}
}

func (m *member) register() {
	c := m.s.opts.Config
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.ControllerID, req.IncarnationID = int32(c.NodeID), m.inc
	for _, e := range controllerEndpoints(c) {
		l := kmsg.NewControllerRegistrationRequestListener()
		l.Name, l.Host, l.Port, l.SecurityProtocol = e.Name, e.Host, e.Port, int16(e.Protocol)
		req.Listeners = append(req.Listeners, l)
	}
	for _, f := range Features() {
		r := kmsg.NewControllerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, r)
	}
	m.s.control().own(req, forwardTimeout, func(resp kmsg.Response, err error) {
		ev := lifecycle.ControllerAnswered{Code: kafka.ErrNotController}
		if r, ok := resp.(*kmsg.ControllerRegistrationResponse); ok && err == nil {
			ev.Code = kafka.ErrorCode(r.ErrorCode)
		}
		m.tell(ev)
	})
}
