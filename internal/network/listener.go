package network

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"moldau/internal/wire"
)

// listener is an open port and those who came through it.
type listener struct {
	net.Listener
	name   string
	h      Handler
	closed bool           // belongs to Server.mu
	stop   chan struct{}  // closed with it
	work   sync.WaitGroup // its goroutine and those of its connections
}

// shut stops accepting, once. Called with Server.mu held.
func (l *listener) shut() {
	if !l.closed {
		l.closed = true
		l.Close()
		close(l.stop)
	}
}

// Serve serves the connections of a listener that is open already, and closes
// it with the Server.
func (s *Server) Serve(open net.Listener, name string, h Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		open.Close()
		return net.ErrClosed
	}
	l := &listener{Listener: open, name: name, h: h, stop: make(chan struct{})}
	s.listeners = append(s.listeners, l)
	s.work.Add(1)
	l.work.Add(1)
	go func() {
		defer s.work.Done()
		defer l.work.Done()
		s.accept(l)
	}()
	return nil
}

// CloseListener closes the listeners of a name with their connections, and waits
// until the goroutines of both have ended; others go on undisturbed
// (SocketServer.removeListeners). Not to be called by a Handler's Serve.
func (s *Server) CloseListener(name string) {
	s.mu.Lock()
	var gone []*listener
	s.listeners = slices.DeleteFunc(s.listeners, func(l *listener) bool {
		if l.name == name {
			gone = append(gone, l)
		}
		return l.name == name
	})
	for _, l := range gone {
		l.shut()
	}
	for c := range s.conns {
		if slices.Contains(gone, c.l) {
			if !c.leaving {
				c.leaving = true
				s.leaving++ // makeRoom need not close others in their place
			}
			c.shut(nil)
		}
	}
	s.mu.Unlock()
	for _, l := range gone {
		l.work.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.listeners, func(l *listener) bool { return l.name == name }) {
		s.gate.forget(name)
	}
}

func (s *Server) accept(l *listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: go on when some are free.
			s.opts.Log.Warn("cannot accept a connection", "listener", l.name, "error", err)
			select {
			case <-l.stop:
				return
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		if !s.waitTurn(l) {
			nc.Close()
			return
		}
		s.admit(nc.(*net.TCPConn), l)
	}
}

// admit serves a connection that has got a place.
func (s *Server) admit(nc *net.TCPConn, l *listener) {
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	c := newConn(s, nc, l, wire.Peer{Listener: l.name, Address: nc.RemoteAddr().String(), Host: host, ID: s.nextID.Add(1)})
	if refuse := s.enter(c); refuse != "" {
		s.opts.Log.Warn("connection refused", "listener", l.name, "client", c.peer.Address, "reason", refuse)
		nc.Close()
		return
	}
	if s.opts.SendBufferBytes > 0 {
		_ = nc.SetWriteBuffer(s.opts.SendBufferBytes)
	}
	if s.opts.ReceiveBufferBytes > 0 {
		_ = nc.SetReadBuffer(s.opts.ReceiveBufferBytes)
	}
	go func() {
		defer s.work.Done()
		defer l.work.Done()
		c.run()
		s.leave(c)
	}()
}

// enter counts a connection among the open ones, or says why not.
func (s *Server) enter(c *conn) (refuse string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		refuse = "server is stopping"
	case c.l.closed:
		refuse = "the listener is closed"
	case !s.gate.come(c.peer.Host):
		refuse = "max.connections.per.ip is reached"
	}
	if refuse != "" {
		s.gate.leave(c.peer.Listener)
		return refuse
	}
	if len(s.conns) == 0 {
		select {
		case s.busy <- struct{}{}:
		default:
		}
	}
	s.conns[c] = struct{}{}
	s.work.Add(1)
	c.l.work.Add(1)
	s.makeRoom() // a protected listener goes beyond the limit
	return ""
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.leaving {
		s.leaving--
	}
	s.gate.goes(c.peer.Host)
	s.gate.leave(c.peer.Listener)
}
