package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"moldau/internal/config"
	"moldau/internal/vfs"
)

// A broker that was fenced for a while, since the process stood still, is
// unfenced again: its listeners are open already. And one that is unfenced
// while the node stops has not failed. Fails if unfenced looks at opened or
// stopping nowhere: it would close what is closed, or tell of a closed listener.
func TestUnfencedAgainAndWhileStopping(t *testing.T) {
	props, err := config.ParseProperties(config.Default)
	if err != nil {
		t.Fatal(err)
	}
	props["listeners"] = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
	props["controller.quorum.bootstrap.servers"] = "127.0.0.1:0"
	props["log.dirs"] = t.TempDir()
	c, err := config.NewServer(props)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(Options{Config: c, FS: vfs.OS{}, Log: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Ready():
	case <-time.After(30 * time.Second):
		t.Fatal("not ready")
	}
	s.unfenced()
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.opened.Store(false)
	s.unfenced()
}
