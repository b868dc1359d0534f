package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKafkaJS uses kafkajs: members that share and take over, commits, and its
// administration of groups.
func TestKafkaJS(t *testing.T) {
	if testing.Short() {
		t.Skip("installs a Node package")
	}
	modules := nodeModules(t, "kafkajs@2.2.4")
	n := newNode(t, "group.initial.rebalance.delay.ms=0")
	n.startMoldau(t)
	cmd := exec.Command("node", "testdata/groups_kafkajs.js", n.addr())
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "KAFKAJS_NO_PARTITIONER_WARNING=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	n.stop(t)
}

// nodeModules installs a package in the user's cache, once, and gives the folder to
// find it in.
func nodeModules(t *testing.T, requirement string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "moldau-interop", "node-"+requirement)
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, ".package-lock.json")); err == nil {
		return modules
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, requirement).CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	return modules
}
