package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordsTool is kafka-delete-records: what lies below an offset is gone, for
// every client, and the tool says up to where.
func recordsTool(t *testing.T, n *node, at string) {
	toolWithInput(t, "1\n2\n3\n4\n5\n", "console-producer", "--bootstrap-server", at, "--topic", "shortened")
	file := filepath.Join(t.TempDir(), "offsets.json")
	remove := func(offset int) (string, error) {
		json := fmt.Sprintf(`{"version":1,"partitions":[{"topic":"shortened","partition":0,"offset":%d}]}`, offset)
		if err := os.WriteFile(file, []byte(json), 0o600); err != nil {
			t.Fatal(err)
		}
		return runTool("", "delete-records", "--bootstrap-server", at, "--offset-json-file", file)
	}
	out, err := remove(2)
	if err != nil {
		t.Fatal(err)
	}
	says(t, "delete-records", out, `partition: shortened-0\s+low_watermark: 2`)
	says(t, "get-offsets --time earliest", tool(t, "get-offsets", "--bootstrap-server", at, "--topic", "shortened", "--time", "earliest"), "shortened:0:2")
	says(t, "console-consumer", tool(t, "console-consumer", "--bootstrap-server", at, "--topic", "shortened", "--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "20000"), `(?m)^3\n4\n5$`)
	out, _ = remove(99)
	says(t, "delete-records beyond the end", out, `OffsetOutOfRangeException`)
	out, err = remove(-1)
	if err != nil {
		t.Fatal(err)
	}
	says(t, "delete-records of all", out, `low_watermark: 5`)
}

// settingsTool is kafka-configs for every kind of entity, and kafka-client-metrics.
func settingsTool(t *testing.T, n *node, at string) {
	configs := func(args ...string) string {
		return tool(t, append([]string{"configs", "--bootstrap-server", at}, args...)...)
	}
	configs("--alter", "--group", "g1", "--add-config", "consumer.session.timeout.ms=50000,share.isolation.level=read_committed")
	if offers(t, n, 16) { // the tool asks which groups there are
		says(t, "configs --describe --group", configs("--describe", "--group", "g1"), `consumer.session.timeout.ms=50000 sensitive=false synonyms=\{DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000\}`, `share.isolation.level=read_committed`)
		says(t, "configs --describe of all groups", configs("--describe", "--entity-type", "groups"), `g1`)
	}
	out, err := runTool("", "configs", "--bootstrap-server", at, "--alter", "--group", "g1", "--add-config", "consumer.session.timeout.ms=1")
	if err == nil || !strings.Contains(out, "in the range 45000 to 60000") {
		t.Errorf("a bad setting of a group: %v, %s", err, lastLines(out, 3))
	}
	configs("--alter", "--client-metrics", "m1", "--add-config", "metrics=org.apache.kafka.,interval.ms=10000,match=[client_id=app.*,client_software_name=java]")
	says(t, "configs --describe --client-metrics", configs("--describe", "--client-metrics", "m1"), `interval.ms=10000`, `match=client_id=app`)
	metrics := func(args ...string) string {
		return tool(t, append([]string{"client-metrics", "--bootstrap-server", at}, args...)...)
	}
	metrics("--alter", "--name", "m2", "--metrics", "*", "--interval", "60000")
	says(t, "client-metrics --list", metrics("--list"), `m1`, `m2`)
	says(t, "client-metrics --describe", metrics("--describe", "--name", "m2"), `interval.ms=60000`, `metrics=\*`)
	metrics("--delete", "--name", "m2")
	if strings.Contains(metrics("--list"), "m2") {
		t.Error("a deleted subscription is listed")
	}
	says(t, "configs --describe --broker-logger", configs("--describe", "--broker-logger", "1"), `root=INFO`)
	configs("--alter", "--broker-logger", "1", "--add-config", "root=DEBUG")
	says(t, "configs --describe --broker-logger after --alter", configs("--describe", "--broker-logger", "1"), `root=DEBUG`)
	configs("--alter", "--broker-logger", "1", "--add-config", "root=INFO")
	configs("--alter", "--broker", "1", "--add-config", "max.connections=5000,listener.name.plaintext.max.connections=4000")
	says(t, "configs --describe --broker", configs("--describe", "--broker", "1"), `(?m)^  max.connections=5000`, `listener.name.plaintext.max.connections=4000`)
	out, err = runTool("", "configs", "--bootstrap-server", at, "--alter", "--broker", "1", "--add-config", "node.id=7")
	if err == nil || !strings.Contains(out, "Cannot update these configs dynamically") {
		t.Errorf("a setting that needs a restart: %v, %s", err, lastLines(out, 3))
	}
}

// offers tells whether a node lists an API.
func offers(t *testing.T, n *node, key int16) bool {
	r := askNode[*kmsg.ApiVersionsResponse](t, n, &kmsg.ApiVersionsRequest{ClientSoftwareName: "interop", ClientSoftwareVersion: "1"}, 4)
	return slices.ContainsFunc(r.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key })
}

// quotasTool is kafka-configs for users, clients and addresses (HC-158: default
// entities come and go as what they are).
func quotasTool(t *testing.T, n *node, at string) {
	configs := func(args ...string) string {
		return tool(t, append([]string{"configs", "--bootstrap-server", at}, args...)...)
	}
	configs("--alter", "--user", "alice", "--add-config", "producer_byte_rate=1048576,request_percentage=12.5")
	configs("--alter", "--user-defaults", "--add-config", "consumer_byte_rate=2097152")
	configs("--alter", "--user", "alice", "--client", "c1", "--add-config", "controller_mutation_rate=10")
	configs("--alter", "--ip", "10.1.2.3", "--add-config", "connection_creation_rate=50")
	users := configs("--describe", "--entity-type", "users")
	says(t, "configs --describe users", users, `Quota configs for user-principal 'alice' are .*producer_byte_rate=1048576`, `request_percentage=12.5`, `the default user-principal are consumer_byte_rate=2097152`)
	says(t, "configs --describe user and client", configs("--describe", "--user", "alice", "--client", "c1"), `controller_mutation_rate=10`)
	says(t, "configs --describe ips", configs("--describe", "--entity-type", "ips"), `ip '10.1.2.3' are connection_creation_rate=50`)
	out, err := runTool("", "configs", "--bootstrap-server", at, "--alter", "--user", "alice", "--add-config", "producer_byte_rate=0")
	if err == nil || !strings.Contains(out, "must be greater than 0") {
		t.Errorf("a quota of nothing: %v, %s", err, lastLines(out, 3))
	}
	configs("--alter", "--user-defaults", "--delete-config", "consumer_byte_rate")
	if users = configs("--describe", "--entity-type", "users"); strings.Contains(users, "default user-principal") {
		t.Errorf("a deleted default is described: %s", lastLines(users, 3))
	}
}

// nothingTools ask for what this cluster has none of.
func nothingTools(t *testing.T, n *node, at string) {
	says(t, "reassign-partitions --list", tool(t, "reassign-partitions", "--bootstrap-server", at, "--list"), `No partition reassignments found`)
	says(t, "transactions list", tool(t, "transactions", "--bootstrap-server", at, "list"), `TransactionalId\s+Coordinator`)
	toolWithInput(t, "1\n", "console-producer", "--bootstrap-server", at, "--topic", "idempotent")
	says(t, "transactions describe-producers", tool(t, "transactions", "--bootstrap-server", at, "describe-producers", "--topic", "idempotent", "--partition", "0"), `ProducerId\s+ProducerEpoch\s+LatestCoordinatorEpoch\s+LastSequence`, `(?m)^\d+\s+0\s+-1\s+0\s+\d+\s+None`)
	out, _ := runTool("", "acls", "--bootstrap-server", at, "--list")
	says(t, "acls --list", out, `SecurityDisabledException: No Authorizer is configured`)
	says(t, "features version-mapping", tool(t, "features", "--bootstrap-server", at, "version-mapping", "--release-version", "4.0"), `metadata.version=25`)
	out, _ = runTool("", "features", "--bootstrap-server", at, "downgrade", "--feature", "transaction.version=1", "--dry-run")
	says(t, "features downgrade --dry-run", out, `transaction.version can be downgraded to 1|Can downgrade|can be downgraded`)
	says(t, "features describe after the dry run", tool(t, "features", "--bootstrap-server", at, "describe"), `Feature: transaction.version\s.*FinalizedVersionLevel: 2`)
}

// TestConsoleLibrary asks what Redpanda Console asks, with its library.
func TestConsoleLibrary(t *testing.T) {
	n := newNode(t)
	n.startMoldau(t)
	cl := n.client(t)
	adm, ctx := kadm.NewClient(cl), within(t, 60*time.Second)
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := adm.CreateTopic(ctx, 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		ok("produce", cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: 0, Value: []byte{byte(i)}}).FirstErr())
	}
	meta, err := adm.Metadata(ctx)
	if ok("Metadata", err); len(meta.Brokers) != 1 || len(meta.Topics["t"].Partitions) != 2 {
		t.Errorf("%+v", meta)
	}
	ends, err := adm.ListEndOffsets(ctx, "t")
	ok("ListEndOffsets", err)
	deleted, err := adm.DeleteRecords(ctx, ends.Offsets())
	ok("DeleteRecords", err)
	ok("DeleteRecords", deleted.Error())
	starts, err := adm.ListStartOffsets(ctx, "t")
	if ok("ListStartOffsets", err); !slices.Equal(listedOffsets(starts), listedOffsets(ends)) {
		t.Errorf("starts %v, ends %v", listedOffsets(starts), listedOffsets(ends))
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if ok("DescribeAllLogDirs", err); len(dirs) != 1 {
		t.Errorf("%+v", dirs)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, "t")
	if ok("DescribeTopicConfigs", err); len(configs) != 1 || len(configs[0].Configs) < 30 {
		t.Errorf("%+v", configs)
	}
	_, err = adm.DescribeBrokerConfigs(ctx, 1)
	ok("DescribeBrokerConfigs", err)
	moving, err := adm.ListPartitionReassignments(ctx, nil)
	if ok("ListPartitionReassignments", err); len(moving) != 0 {
		t.Errorf("%+v", moving)
	}
	scram, err := adm.DescribeUserSCRAMs(ctx)
	if ok("DescribeUserSCRAMs", err); len(scram) != 0 {
		t.Errorf("%+v", scram)
	}
	producers, err := adm.DescribeProducers(ctx, meta.Topics.TopicsSet())
	if ok("DescribeProducers", err); len(producers) == 0 {
		t.Error("the client's own producer is not described")
	}
	txns, err := adm.ListTransactions(ctx, nil, nil)
	if ok("ListTransactions", err); len(txns) != 0 {
		t.Errorf("%+v", txns)
	}
	rate := 1000.0
	_, err = adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: kadm.ClientQuotaEntity{{Type: "user"}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: rate}}}})
	ok("AlterClientQuotas", err)
	quotas, err := adm.DescribeClientQuotas(ctx, false, nil)
	if ok("DescribeClientQuotas", err); len(quotas) != 1 || len(quotas[0].Entity) != 1 || quotas[0].Entity[0].Name != nil || quotas[0].Values[0].Value != rate {
		t.Errorf("%+v", quotas)
	}
	acls, err := adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny))
	if err == nil && len(acls) > 0 {
		err = acls[0].Err
	}
	if err == nil || !strings.Contains(err.Error(), "SECURITY_DISABLED") {
		t.Errorf("ACLs without an authorizer: %v", err)
	}
	n.stop(t)
}

func listedOffsets(l kadm.ListedOffsets) (out []int64) {
	l.Each(func(o kadm.ListedOffset) { out = append(out, int64(o.Partition)<<32|o.Offset) })
	slices.Sort(out)
	return out
}

// TestKcatLists is kcat -L, if there is a kcat.
func TestKcatLists(t *testing.T) {
	kcat, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed")
	}
	n := newNode(t)
	n.startMoldau(t)
	askNode[*kmsg.CreateTopicsResponse](t, n, createTopics(createTopic("listed", 2, 1))(nil, 7), 7)
	out, err := exec.Command(kcat, "-b", n.addr(), "-L").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	says(t, "kcat -L", string(out), `1 brokers:`, `broker 1 at 127.0.0.1:\d+ \(controller\)`, `topic "listed" with 2 partitions`, `partition 1, leader 1, replicas: 1, isrs: 1`)
	n.stop(t)
}
