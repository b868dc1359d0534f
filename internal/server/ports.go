package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"moldau/internal/config"
	"moldau/internal/handler"
)

// ports are the listeners of a node. Those of the properties file are bound when it
// starts, so that a port that is in use is told before anything is written. A
// broker's follow the dynamic settings (DynamicListenerConfig): before it registers,
// when it knows them, and for as long as it runs. Controllers' listeners stay.
//
// Who connects to a port waits until clients are let in. A goroutine of its own binds
// and closes at run time: a host may have to be looked up, and connections that end
// be waited for.
type ports struct {
	s      *Server
	poke   chan struct{}
	ended  chan struct{}
	ctx    context.Context // until stop
	cancel context.CancelFunc

	changing sync.Mutex // one change at a time

	mu      sync.Mutex
	wanted  *config.Listening // what the newest metadata says
	applied *config.Listening // what has been done, or tried
	open    []*port
	letIn   bool // clients are served
}

// port is one listener that is open.
type port struct {
	config.Listener              // with its port, if the settings leave it open
	held            net.Listener // nil: handed to the network
	at              net.Addr
}

func newPorts(s *Server) *ports {
	p := &ports{s: s, poke: make(chan struct{}, 1), ended: make(chan struct{}), wanted: &s.opts.Config.Listening}
	p.applied = p.wanted
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.run()
	return p
}

// hold binds what the properties file says, to learn the ports and to fail early.
func (p *ports) hold() error {
	c := p.s.opts.Config
	for i := range c.Listeners {
		o, err := p.bind(c.Listeners[i])
		if err != nil {
			return fmt.Errorf("listener %s: %w; stop what uses the port, or change listeners", c.Listeners[i].Name, err)
		}
		c.Listeners[i].Port = o.Port
		if c.Advertised[i].Port == 0 {
			c.Advertised[i].Port = o.Port
		}
		p.add(o)
	}
	return nil
}

func (p *ports) bind(l config.Listener) (*port, error) {
	var lc net.ListenConfig
	held, err := lc.Listen(p.ctx, "tcp", l.Address())
	if err != nil {
		return nil, err
	}
	l.Port = uint16(held.Addr().(*net.TCPAddr).Port)
	return &port{Listener: l, held: held, at: held.Addr()}, nil
}

func (p *ports) add(o *port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, o)
}

func (p *ports) find(name string) *port {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.open, func(o *port) bool { return o.Name == name }); i >= 0 {
		return p.open[i]
	}
	return nil
}

// list gives the ports of clients, or the controllers'.
func (p *ports) list(controllers bool) []*port {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.open), func(o *port) bool { return p.s.opts.Config.IsControllerListener(o.Name) != controllers })
}

// want has the listeners follow the settings; it does not wait for them.
func (p *ports) want(l config.Layers) {
	now, err := config.InForce(l)
	if err != nil {
		p.s.log.Error("listeners or listener.security.protocol.map, as they are set at run time, do not go together with the properties file, which counts; set or delete them anew", "error", err)
	}
	p.mu.Lock()
	changed := !slices.Equal(now.Listeners, p.wanted.Listeners)
	if changed {
		p.wanted = now
	}
	p.mu.Unlock()
	if changed {
		p.wake()
	}
}

// wake has run look.
func (p *ports) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

func (p *ports) run() {
	defer close(p.ended)
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.poke:
		}
		if p.served() { // else who registers looks at it, or wakes run when it lets clients in
			p.apply()
		}
	}
}

func (p *ports) served() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.letIn
}

// applyFirst does what apply does until clients are let in. From then on run does: who
// registers again sends heartbeats, and must not wait for names or connections.
func (p *ports) applyFirst() {
	if !p.served() {
		p.apply()
	}
}

// apply opens and closes listeners until they are what is wanted; after stop it does
// nothing. What fails is logged, and tried again when the settings change.
func (p *ports) apply() {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	wanted, letIn, done := p.wanted, p.letIn, p.wanted == p.applied
	p.applied = wanted
	p.mu.Unlock()
	if done {
		return
	}
	moved := map[string]config.Listener{} // whence; another may come to where one was
	for _, o := range p.list(false) {
		i := slices.IndexFunc(wanted.Listeners, func(l config.Listener) bool { return l.Name == o.Name })
		if i < 0 {
			p.drop(o)
			p.s.log.Info("listener closed", "listener", o.String())
			continue
		}
		if l := wanted.Listeners[i]; l.Host == o.Host && (l.Port == 0 || l.Port == o.Port) {
			continue
		} else if o.held == nil { // as in Kafka
			p.s.log.Warn("a listener keeps its address until the next start", "listener", o.String(), "wanted", l.String())
		} else {
			p.drop(o)
			moved[o.Name] = o.Listener
		}
	}
	for _, l := range wanted.Listeners {
		if !wanted.IsControllerListener(l.Name) && p.find(l.Name) == nil && p.openPort(l, letIn) {
			delete(moved, l.Name)
		}
	}
	for _, o := range moved {
		p.openPort(o, letIn)
	}
}

// drop closes a port with its connections and waits for their end.
func (p *ports) drop(o *port) {
	p.mu.Lock()
	p.open = slices.DeleteFunc(p.open, func(other *port) bool { return other == o })
	p.mu.Unlock()
	if o.held != nil {
		o.held.Close()
	} else {
		p.s.network.CloseListener(o.Name)
	}
}

// openPort opens a port that was added at run time.
func (p *ports) openPort(l config.Listener, serve bool) bool {
	o, err := p.bind(l)
	if err == nil && serve {
		err = p.serve(o, false)
	}
	switch {
	case err == nil:
		p.add(o)
		p.s.log.Info("listener opened", "listener", o.String())
	case p.ctx.Err() == nil:
		p.s.log.Error("a listener cannot be opened; free its port, then take it out of listeners and add it again, or restart", "listener", l.String(), "error", err)
	}
	return err == nil
}

// serve hands a port to the network.
func (p *ports) serve(o *port, controllers bool) error {
	opts := p.s.handlerOptions()
	h := handler.NewBroker
	if controllers {
		h = handler.NewController
		opts.Store, opts.Groups, opts.Controller, opts.BrokerGone = nil, nil, localControl{p.s.control()}, p.s.brokerGone
	}
	if err := p.s.network.Serve(o.held, o.Name, h(opts)); err != nil {
		return fmt.Errorf("listener %s: %w", o.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o.held = nil
	return nil
}

// serveControllers lets controllers and brokers in.
func (p *ports) serveControllers() error {
	for _, o := range p.list(true) {
		if err := p.serve(o, true); err != nil {
			return err
		}
	}
	return nil
}

// serveClients lets clients in.
func (p *ports) serveClients() error {
	p.changing.Lock()
	defer p.changing.Unlock()
	for _, o := range p.list(false) {
		if err := p.serve(o, false); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.letIn = true
	p.mu.Unlock()
	p.wake() // for what was wanted since the broker registered
	return nil
}

// reached are the listeners of clients that are open, as others reach them; with
// advertised only those that others are told of.
func (p *ports) reached(advertised bool) []config.Listener {
	p.mu.Lock()
	now := p.applied
	p.mu.Unlock()
	var out []config.Listener
	for _, o := range p.list(false) {
		l := o.Listener
		i := slices.IndexFunc(now.Listeners, func(l config.Listener) bool { return l.Name == o.Name })
		switch told := i >= 0 && now.Advertises(o.Name); {
		case told && now.Advertised[i] != now.Listeners[i]: // advertised.listeners has it
			l = now.Advertised[i]
			if l.Port == 0 {
				l.Port = o.Port
			}
		case !told && advertised:
			continue
		}
		if l.Host == "" && !p.s.storage.whole {
			l.Host, _ = os.Hostname() // there was one when the node started
		}
		out = append(out, l)
	}
	return out
}

// address is where a listener is served; nil if it is not.
func (p *ports) address(name string) net.Addr {
	o := p.find(name)
	if o == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.held != nil {
		return nil
	}
	return o.at
}

// stop ends changes and closes what the network does not have.
func (p *ports) stop() {
	p.cancel()
	<-p.ended
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.open {
		if o.held != nil {
			o.held.Close()
		}
	}
}
