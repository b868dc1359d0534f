package server

import (
	"slices"
	"strings"
	"testing"

	"moldau/internal/config"
)

// Listeners are protected from clients, if clients have others. On a node that is
// only a controller all come through the same, and the limits of all hold for it.
// Fails if controllers are protected everywhere, or other brokers from themselves.
func TestProtectedListeners(t *testing.T) {
	const quorum = "node.id=1\ncontroller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=h:3\n"
	const protocols = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT,INTER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
	for _, c := range []struct{ settings, want string }{
		{"process.roles=controller\nlisteners=CONTROLLER://h:3\n", ""},
		{"process.roles=broker\nlisteners=PLAINTEXT://h:1\n", "CONTROLLER"},
		{"process.roles=broker,controller\nlisteners=PLAINTEXT://h:1,CONTROLLER://h:3\n", "CONTROLLER"},
		{"process.roles=broker,controller\nlisteners=CLIENTS://h:1,INTER://h:2,CONTROLLER://h:3\ninter.broker.listener.name=INTER\n", "CONTROLLER INTER"},
	} {
		props, err := config.ParseProperties(c.settings + quorum + protocols + "log.dirs=/nowhere\n")
		if err != nil {
			t.Fatal(err)
		}
		conf, err := config.NewServer(props)
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		got := conf.Protected()
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q are protected, want %s", c.settings, got, c.want)
		}
	}
}
