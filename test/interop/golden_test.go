package interop

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGoldenFolder: moldau serves a folder that Apache Kafka 4.4 left after a
// busy life (compaction, transactions, groups, share groups, ACLs), leaves the
// internal topics alone, and Apache Kafka goes on with it.
func TestGoldenFolder(t *testing.T) {
	needKafka(t)
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", "testdata/single.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n := nodeIn(t, t.TempDir(), "log.dirs="+filepath.Join(dir, "single"), "log.retention.check.interval.ms=600000", "broker.rack=rack-a", "log.cleaner.enable=true", "log.retention.ms=-1",
		"transaction.state.log.num.partitions=5", "share.coordinator.state.topic.num.partitions=5", "delegation.token.secret.key=golden",
		// Kafka would abort the transaction that was left open, and write a marker, when it runs for this long.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=3600000")
	n.foreign = true
	internal := internalBytes(t, filepath.Join(dir, "single"))
	n.startMoldau(t)
	ours, committed, configs := n.read(t), n.read(t, kgo.FetchIsolationLevel(kgo.ReadCommitted())), n.topicConfigs(t)
	ends := n.endOffsets(t)
	n.stop(t)
	for name, sum := range internalBytes(t, filepath.Join(dir, "single")) {
		if internal[name] != sum {
			t.Errorf("moldau changed %s", name)
		}
	}
	for _, want := range []string{"log-append-time-0", "compacted-0", "idempotent-0", "transactions-0", "transactions-1"} {
		if len(ours[want]) == 0 {
			t.Errorf("moldau serves nothing of %s", want)
		}
	}
	if at := ends["codecs-4"]; at.start != 60 || at.end != 60 {
		t.Errorf("codecs-4 is at %v; retention had emptied it up to 60", at)
	}
	if _, ok := ours["doomed-0"]; ok {
		t.Error("moldau serves a deleted topic")
	}
	if fmt.Sprint(committed["transactions-0"]) == fmt.Sprint(ours["transactions-0"]) {
		t.Error("read_committed hides nothing of transactions-0, which has aborted ones")
	}

	n.startKafka(t)
	sameContent(t, "Kafka on the golden folder, after moldau", ours, n.read(t), false)
	theirs := n.read(t, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	sameContent(t, "read_committed", map[string][]string{"transactions-0": committed["transactions-0"], "transactions-1": committed["transactions-1"]}, theirs, true)
	if got := n.topicConfigs(t); strings.Join(got, "\n") != strings.Join(configs, "\n") {
		t.Errorf("Kafka sees the configs\n%v\nmoldau\n%v", got, configs)
	}
	groups := tool(t, "groups", "--bootstrap-server", n.addr(), "--list")
	for _, g := range []string{"classic-group", "consumer-group", "share-group"} {
		if !strings.Contains(groups, g) {
			t.Errorf("Kafka has lost %s after moldau ran: %s", g, groups)
		}
	}
	n.stop(t)
}

// internalBytes sums the logs of internal topics.
func internalBytes(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"__consumer_offsets-*", "__transaction_state-*", "__share_group_state-*"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern, "*.log"))
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[f] = fmt.Sprintf("%x", sha256.Sum256(b))
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d logs of internal topics", len(out))
	}
	return out
}
