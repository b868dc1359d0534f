package interop

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestKgo runs franz-go's own tests, of the version in go.mod, against moldau;
// then its test of groups with connections that break every second. What cannot
// pass yet is in testdata/kgo-skipped.txt; a name there that passes fails the test,
// as does any other that does not.
func TestKgo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs another project's tests")
	}
	dir := filepath.Join(strings.TrimSpace(command(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go")), "pkg", "kgo")
	bin := filepath.Join(t.TempDir(), "kgo.test")
	command(t, dir, "go", "test", "-c", "-o", bin, ".")
	n := newNode(t)
	n.startMoldau(t)
	runKgo(t, n, dir, bin, "^Test", nil)
	runKgo(t, n, dir, bin, "^TestGroupETL$", []string{"KGO_TEST_CHAOS=1"})
	n.stop(t)
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, lastLines(errors.String(), 20))
	}
	return string(out)
}

func runKgo(t *testing.T, n *node, dir, bin, pattern string, env []string) {
	t.Helper()
	skipped := kgoSkipped(t)
	args := []string{"-test.v", "-test.timeout", "6m", "-test.parallel", "8", "-test.run", pattern}
	// Without a coordinator of transactions this test waits for one for ever.
	const transactions = "TestTxnEtl"
	r := askNode[*kmsg.FindCoordinatorResponse](t, n, &kmsg.FindCoordinatorRequest{CoordinatorType: 1, CoordinatorKeys: []string{"txn"}}, 4)
	if r.Coordinators[0].ErrorCode != 0 {
		args = append(args, "-test.skip", "^"+transactions+"$")
	}
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "KGO_SEEDS="+n.addr(), "KGO_TEST_RF=1", "KGO_TEST_RECORDS=200000", "KGO_LOG_LEVEL=none")...)
	out, err := cmd.CombinedOutput()
	results, seen := map[string]int{}, map[string]bool{transactions: true}
	for _, m := range regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(string(out), -1) {
		result, name := m[1], m[2]
		results[result]++
		seen[name] = true
		switch listed := slices.Contains(skipped, name); {
		case result == "FAIL" && !listed:
			t.Errorf("%s fails", name)
		case result == "SKIP" && !listed:
			t.Errorf("%s is skipped; list it with the reason", name)
		case result == "PASS" && listed:
			t.Errorf("%s passes: take it off the list", name)
		}
	}
	t.Logf("%s: %v", pattern, results)
	for _, name := range skipped {
		if !seen[name] && pattern == "^Test" {
			t.Errorf("%s is listed, but no test is called so", name)
		}
	}
	if results["PASS"] == 0 || (err != nil && results["FAIL"] == 0) {
		t.Errorf("franz-go's tests end with %v and %v", err, results)
	}
	if t.Failed() {
		t.Logf("franz-go's tests say\n%s", lastLines(string(out), 100))
	}
}

// kgoSkipped reads the names: the first word of each line that is no comment.
func kgoSkipped(t *testing.T) (names []string) {
	t.Helper()
	f, err := os.Open("testdata/kgo-skipped.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) > 1 && words[0] != "#" {
			names = append(names, words[0])
		}
	}
	return names
}
