package sim

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
)

// member keeps a controller registered with the active one, as the server does.
type member struct {
	n    *node
	core lifecycle.Controller
	inc  kafka.IncarnationID
}

func (m *member) boot() {
	m.core, m.inc = lifecycle.Controller{}, m.n.w.newIncarnation()
}

func (w *World) newIncarnation() (inc kafka.IncarnationID) {
	for i := range inc {
		inc[i] = byte(w.rng.Uint64())
	}
	return inc
}

func (m *member) moved(img *metadata.Image) {
	r := img.Controller(m.n.id)
	m.step(lifecycle.LogMoved{Supported: img.Version().CanRegisterControllers(), Registered: r != nil && r.IncarnationID == m.inc})
}

func (m *member) step(ev lifecycle.ControllerEvent) {
	if !m.core.Step(m.n.clock(), ev) {
		return
	}
	req := kmsg.NewPtrControllerRegistrationRequest()
	req.SetVersion(req.MaxVersion())
	req.ControllerID, req.IncarnationID = int32(m.n.id), m.inc
	for _, f := range features() {
		r := kmsg.NewControllerRegistrationRequestFeature()
		r.Name, r.MinSupportedVersion, r.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, r)
	}
	m.n.ask(req, func(a answer) {
		ev := lifecycle.ControllerAnswered{Code: kafka.ErrNotController}
		if r, ok := a.resp.(*kmsg.ControllerRegistrationResponse); ok {
			ev.Code = kafka.ErrorCode(r.ErrorCode)
		}
		m.step(ev)
	})
}
