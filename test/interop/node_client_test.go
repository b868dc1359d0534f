package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKafkaJS uses kafkajs, which is written in JavaScript alone.
func TestKafkaJS(t *testing.T) {
	if testing.Short() {
		t.Skip("installs an npm package")
	}
	modules := npmWith(t, "kafkajs@2.2.4")
	n := newNode(t)
	n.startMoldau(t)
	cmd := exec.Command("node", "testdata/groups_kafkajs.js", n.addr())
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, lastLines(string(out), 60))
	}
	n.stop(t)
}

// npmWith installs a package in the user's cache, once, and gives the folder of
// its modules.
func npmWith(t *testing.T, requirement string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(cache, "moldau-interop", requirement)
	modules := filepath.Join(prefix, "node_modules")
	// npm writes this file last.
	if _, err := os.Stat(filepath.Join(modules, ".package-lock.json")); err == nil {
		return modules
	}
	if err := os.MkdirAll(prefix, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, prefix, "npm", "install", "--prefix", prefix, "--no-audit", "--no-fund", "--silent", requirement)
	return modules
}
