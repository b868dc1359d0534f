package server

import (
	"context"

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
