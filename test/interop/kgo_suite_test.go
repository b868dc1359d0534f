package interop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// kgoSkipped are tests of franz-go's own suite that need what is not here yet. The
// suite skips those of the first list by itself, by what ApiVersions offers; it has
// to be told to leave those of the second out. A listed test that passes fails
// TestKgoSuite, and so does one that fails or is skipped and is not listed.
var kgoSkipped = map[string]string{
	"TestShareGroup":                           "share groups",
	"TestShareGroupETL":                        "share groups",
	"TestShareGroupAckOnClose":                 "share groups",
	"TestShareGroupOffsetsAdmin":               "share groups",
	"TestConsumeRegexShareSkipsInternal":       "share groups",
	"Test848RegexBrokerResolves":               "the consumer group protocol (KIP-848)",
	"TestGroupSimple/848":                      "the consumer group protocol (KIP-848)",
	"TestGroupETL/sticky/848":                  "the consumer group protocol (KIP-848)",
	"TestGroupETL/sticky/848/static":           "the consumer group protocol (KIP-848)",
	"TestGroupETL/range/848":                   "the consumer group protocol (KIP-848)",
	"TestSCRAMAuth":                            "SASL",
	"TestSCRAMAuthBadCredentials":              "SASL",
	"TestOAuthAuth":                            "SASL",
	"TestIssueProduceBrokerTooOldFailsRecords": "a server without idempotent producers, which this is not",
}

var kgoLeftOut = map[string]string{
	"TestTxnEtl": "transactions",
}

var kgoVerdict = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) `)

// TestKgoSuite runs the tests that franz-go's authors wrote for its client, against
// this server.
func TestKgoSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("builds franz-go's tests")
	}
	suite := buildKgoSuite(t)
	n := newNode(t, "group.initial.rebalance.delay.ms=100", "auto.create.topics.enable=true")
	n.startMoldau(t)
	var leftOut []string
	for name := range kgoLeftOut {
		leftOut = append(leftOut, name)
	}
	verdicts, out := runKgoSuite(t, n, suite, "50000", 5*time.Minute, "-test.skip", "^("+strings.Join(leftOut, "|")+")$")
	for name, v := range verdicts {
		if _, listed := kgoSkipped[name]; v == "FAIL" || v == "SKIP" && !listed {
			t.Errorf("%s: %s", name, v)
		}
	}
	for name, why := range kgoSkipped {
		if v := verdicts[name]; v != "SKIP" {
			t.Errorf("%s needs %s and is listed as skipped: %q", name, why, v)
		}
	}
	if len(verdicts) < 150 || t.Failed() {
		t.Errorf("%d verdicts:\n%s", len(verdicts), lastLines(out, 40))
	}
	for _, name := range leftOut {
		if v, _ := runKgoSuite(t, n, suite, "1000", 15*time.Second, "-test.run", "^"+name+"$"); v[name] == "PASS" {
			t.Errorf("%s passes, and is left out for want of %s: take it off the list", name, kgoLeftOut[name])
		}
	}
	n.stop(t)
}

// buildKgoSuite compiles the tests of the version of franz-go that this module uses,
// and gives the program, beside the folder that they are to run in.
func buildKgoSuite(t *testing.T) string {
	t.Helper()
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go")
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(t.TempDir(), "franz-go")
	if err := os.CopyFS(src, os.DirFS(strings.TrimSpace(string(dir)))); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-o", "kgo.test", ".")
	build.Dir = filepath.Join(src, "pkg", "kgo")
	if err := os.Chmod(build.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(build.Dir, "kgo.test")
}

// runKgoSuite gives the verdict on each test. Tests that move records move so many.
func runKgoSuite(t *testing.T, n *node, suite, records string, limit time.Duration, args ...string) (map[string]string, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, suite, append([]string{"-test.v"}, args...)...)
	cmd.Dir = filepath.Dir(suite)
	cmd.Env = append(os.Environ(), "KGO_SEEDS="+n.addr(), "KGO_TEST_RF=1", "KGO_TEST_RECORDS="+records, "KGO_LOG_LEVEL=none")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out.Bytes())); lines.Scan(); {
		if m := kgoVerdict.FindStringSubmatch(lines.Text()); m != nil {
			verdicts[m[2]] = m[1]
		}
	}
	return verdicts, out.String()
}
