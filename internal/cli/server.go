package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/config"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// stopTimeout bounds a clean stop; after it the process ends as it is, which
// costs a recovery at the next start and nothing else.
const stopTimeout = 30 * time.Second

func newServer() *cobra.Command {
	var file, profile string
	var sets []string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a node: broker, controller, or both",
		Long: `Runs a node until SIGTERM or SIGINT.

Without --config it is a broker and controller of its own cluster, listens on
localhost:9092 and keeps its data in ./moldau-data. With --config it takes
Kafka's server.properties. --set overrides single keys of either.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level := &slog.LevelVar{}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			c, err := loadConfig(file, sets)
			if err != nil {
				return err
			}
			for _, key := range c.Unknown {
				log.Warn("unknown key in the configuration is ignored", "key", key)
			}
			if profile != "" {
				f, err := os.Create(profile)
				if err != nil {
					return err
				}
				defer f.Close()
				if err := pprof.StartCPUProfile(f); err != nil {
					return err
				}
				defer pprof.StopCPUProfile()
			}
			return runServer(cmd.Context(), server.Options{Config: c, FS: vfs.OS{}, Log: log, LogLevel: level}, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "Kafka's server.properties")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "override a key: --set key=value")
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a Go CPU profile of the run to this file")
	_ = cmd.Flags().MarkHidden("cpuprofile")
	return cmd
}

// loadConfig reads the properties of a file, or the built-in ones, and applies
// overrides.
func loadConfig(file string, sets []string) (*config.Server, error) {
	text := config.Default
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		text = string(b)
	}
	props, err := config.ParseProperties(text)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", file, err)
	}
	for _, s := range sets {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--set %s is not of the form key=value", s)
		}
		props[strings.TrimSpace(key)] = value
	}
	c, err := config.NewServer(props)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if file == "" && !setsQuorum(sets) {
		return ownQuorum(props, c)
	}
	return c, nil
}

// setsQuorum tells whether the overrides say who the controllers are.
func setsQuorum(sets []string) bool {
	return slices.ContainsFunc(sets, func(s string) bool {
		return strings.HasPrefix(strings.TrimSpace(s), "controller.quorum.bootstrap.servers") || strings.HasPrefix(strings.TrimSpace(s), "controller.quorum.voters")
	})
}

// ownQuorum makes the built-in configuration name this node as the quorum
// wherever overrides have moved its controller listener.
func ownQuorum(props map[string]string, c *config.Server) (*config.Server, error) {
	for _, l := range c.Listeners {
		if c.IsControllerListener(l.Name) {
			props["controller.quorum.bootstrap.servers"] = l.Address()
			break
		}
	}
	return config.NewServer(props)
}

func runServer(ctx context.Context, o server.Options, out io.Writer) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer cancel()
	began := time.Now()
	s, err := server.Start(o)
	if err != nil {
		return err
	}
	select {
	case <-s.Ready():
		announce(out, s, o.Config, time.Since(began))
	case err := <-s.Failed():
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-s.Failed():
		// Crash-only: what is on disk is in order, and a clean stop could hang on
		// what has failed.
		return err
	case <-ctx.Done():
	}
	stopping, done := context.WithTimeout(context.Background(), stopTimeout)
	defer done()
	if err := s.Stop(stopping); err != nil {
		return fmt.Errorf("stopped, but not cleanly: %w", err)
	}
	if errors.Is(stopping.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("did not stop within %s", stopTimeout)
	}
	return nil
}

// announce says in a few lines where the node is and what to type next.
func announce(out io.Writer, s *server.Server, c *config.Server, took time.Duration) {
	first := ""
	for _, l := range s.Listeners() {
		if first == "" {
			first = l.Address()
		}
		fmt.Fprintf(out, "%s listens on %s\n", l.Name, l.Address())
	}
	for _, d := range c.LogDirs {
		if abs, err := filepath.Abs(d); err == nil {
			d = abs
		}
		fmt.Fprintf(out, "data in %s, cluster %s, node %d\n", d, s.ClusterID(), c.NodeID)
	}
	try := "kcat -b " + strings.TrimPrefix(first, ":") + " -L"
	if first == "" { // a controller alone
		for _, l := range c.Advertised {
			if l.Name == c.ControllerListeners[0] {
				try = "moldau quorum describe --bootstrap-controller " + l.Address()
			}
		}
	}
	fmt.Fprintf(out, "ready after %d ms; try: %s\n", took.Milliseconds(), try)
}
