package server

import "context"

// Kill ends the node as the death of its process would look to others: every
// connection breaks, and nobody is told.
func (s *Server) Kill(ctx context.Context) error {
	s.network.Close()
	s.raftNet.Cut()
	return s.Stop(ctx)
}
