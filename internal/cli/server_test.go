package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
)

// Without a file the node stays its own quorum when overrides move its
// listeners. Would fail if loadConfig kept the address of the built-in text.
func TestOverridesMoveTheOwnQuorum(t *testing.T) {
	moved := "listeners=PLAINTEXT://127.0.0.1:19192,CONTROLLER://127.0.0.1:19193"
	for _, tt := range []struct {
		sets []string
		want []string
	}{
		{nil, []string{"127.0.0.1:9093"}},
		{[]string{moved}, []string{"127.0.0.1:19193"}},
		{[]string{moved, "controller.quorum.bootstrap.servers=h:1"}, []string{"h:1"}},
		{[]string{moved, "controller.quorum.voters=1@h:1"}, []string{"127.0.0.1:9093"}},
	} {
		c, err := loadConfig("", tt.sets)
		if err != nil || !slices.Equal(c.BootstrapServers, tt.want) {
			t.Errorf("%q: %v, %v; want %v", tt.sets, c, err, tt.want)
		}
	}
}

func TestServerAndStorageRefuse(t *testing.T) {
	// A server that starts all the same stops at once.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for args, want := range map[string]string{
		"nonsense":                                "unknown command",
		"server nonsense":                         "unknown command",
		"server --config /no/such/file":           "no such file",
		"server --set nonsense":                   "not of the form key=value",
		"server --set node.id=x":                  "node.id",
		"server --set process.roles=broker":       "remove it from listeners",
		"server --set log.dirs=":                  "log.dirs has an empty name",
		"storage nonsense":                        "unknown command",
		"storage random-uuid nonsense":            "unknown command",
		"storage format --config f --cluster-id=": "--cluster-id is empty",
		"storage info":                            "config",
		"storage info --config /no/file":          "no such file",
		"storage format --config /no/file":        "cluster-id",
		"server --set authorizer.class.name=A":    "does not authorize anybody yet",
	} {
		root := New()
		root.SetArgs(strings.Fields(args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", args, err, want)
		}
	}
}

// Fails if parseVoters takes an id that means "no directory".
func TestVotersNeedADirectory(t *testing.T) {
	c, err := loadConfig("", nil)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"AAAAAAAAAAAAAAAAAAAAAA": "reserved id",
		"xyz":                    "not a 22-character base64 uuid",
	} {
		if _, err := parseVoters("1@localhost:9093:"+dir, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", dir, err, want)
		}
	}
	if set, err := parseVoters("1@localhost:9093:pv2WaFYBQ_-gJQhU26oB6Q", c); err != nil || set.Len() != 1 {
		t.Errorf("%v, %v", set, err)
	}
}
