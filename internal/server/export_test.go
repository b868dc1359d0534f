package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"moldau/internal/raft"
)

// Kill ends the node as the death of its process would look to others: every
// connection breaks, and nobody is told.
func (s *Server) Kill(ctx context.Context) error {
	s.opened.Store(false) // a dead process asks nobody to take over
	s.network.Close()
	s.remote.close()
	s.raftNet.Cut()
	return s.Stop(ctx)
}

// Connections are how many connections are open.
func (s *Server) Connections() int { return s.network.Connections() }

// Held are how many connections wait to be let in.
func (s *Server) Held() int { return s.network.Held() }

// Voters are the voters that the node knows.
func (s *Server) Voters() raft.VoterSet { return s.quorum.Voters() }

// Ports below those that Linux gives to connections, 32768 and up: a client's
// could take the place of a server that is down, or connect to itself.
const (
	firstPort = 10_000
	portCount = 22_000
)

var portsGiven atomic.Int32

// FreePort gives a port on which nobody listens; each once, and other processes
// begin elsewhere.
func FreePort(t testing.TB) int {
	t.Helper()
	for range portCount {
		p := firstPort + (os.Getpid()*7919+int(portsGiven.Add(1)))%portCount
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p)); err == nil {
			l.Close()
			return p
		}
	}
	t.Fatal("no port is free")
	return 0
}
