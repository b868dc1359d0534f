package server

import (
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"moldau/internal/config"
)

// portsOf are the ports of a broker with such listeners, bound and not yet served.
func portsOf(t *testing.T, listeners string) *ports {
	t.Helper()
	l, err := listeningOf(listeners)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{log: slog.New(slog.DiscardHandler)}
	s.opts.Config = &config.Server{Listening: *l}
	p := newPorts(s)
	t.Cleanup(p.stop)
	if err := p.hold(); err != nil {
		t.Fatal(err)
	}
	return p
}

func settingsOf(listeners string) config.Layers {
	set := map[string]string{
		"process.roles": "broker", "controller.listener.names": "CONTROLLER", "listeners": listeners,
		"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,CONTROLLER:PLAINTEXT", "inter.broker.listener.name": "A",
	}
	return config.Layers{Static: func(name string) (string, bool) { v, ok := set[name]; return v, ok }}
}

func listeningOf(listeners string) (*config.Listening, error) {
	return config.NewListening(settingsOf(listeners))
}

// A broker that registers while the node stops opens nothing any more: nobody would
// close it. Fails if apply does not look.
func TestNoListenerOpensAfterStop(t *testing.T) {
	p := portsOf(t, "A://127.0.0.1:0")
	port := FreePort(t)
	p.want(settingsOf(fmt.Sprintf("A://127.0.0.1:0,C://127.0.0.1:%d", port)))
	p.stop()
	p.apply()
	if o := p.find("C"); o != nil {
		o.held.Close()
		t.Errorf("%s was opened", o.Listener)
	}
}

// Before they are served, listeners go to where others were: of one that goes, or that
// moves as well. One that cannot stays where it is. Fails if apply opens one before all
// that go are closed, or forgets where one was.
func TestListenersTakeEachOthersPorts(t *testing.T) {
	a, b, c := uint16(FreePort(t)), uint16(FreePort(t)), uint16(FreePort(t))
	p := portsOf(t, fmt.Sprintf("A://127.0.0.1:%d,B://127.0.0.1:%d,C://127.0.0.1:%d", a, b, c))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, step := range []struct {
		listeners string
		a, b      uint16
	}{
		{fmt.Sprintf("A://127.0.0.1:%d,B://127.0.0.1:%d,C://127.0.0.1:%d", b, a, c), b, a},
		{fmt.Sprintf("A://127.0.0.1:%d,B://127.0.0.1:%d", c, a), c, a},
		{fmt.Sprintf("A://127.0.0.1:%d,B://%s", c, taken.Addr()), c, a},
	} {
		p.want(settingsOf(step.listeners))
		p.apply()
		for name, port := range map[string]uint16{"A": step.a, "B": step.b} {
			if o := p.find(name); o == nil || o.Port != port {
				t.Errorf("%s: %s is at %+v, want %d", step.listeners, name, o, port)
			}
		}
	}
}

// A broker that registers again does not wait for a change of listeners, which can
// take as long as a host's name is looked up: it would be fenced. Fails if applyFirst
// applies whenever it is called.
func TestRegisteringAgainWaitsForNoListener(t *testing.T) {
	p := portsOf(t, "A://127.0.0.1:0")
	p.mu.Lock()
	p.letIn = true
	p.mu.Unlock()
	p.changing.Lock() // a change that takes long
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.want(settingsOf("A://127.0.0.1:0,C://127.0.0.1:0"))
		p.applyFirst()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
	p.mu.Lock()
	p.letIn = false // nothing is there that could serve
	p.mu.Unlock()
	p.changing.Unlock()
	<-done
}
