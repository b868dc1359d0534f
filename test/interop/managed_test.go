package interop

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// managed tells what administration has left in a folder, as whoever serves it
// says.
func managed(t *testing.T, n *node) []string {
	t.Helper()
	s := &side{n: n}
	s.refresh(t)
	var lines []string
	for _, q := range []struct {
		what    string
		req     kmsg.Request
		version int16
	}{
		{"earliest", listOffsets("kept", 0, -2, -1, 0)(s, 9), 9},
		{"latest", listOffsets("kept", 0, -1, -1, 0)(s, 9), 9},
		{"quotas", describeQuotas(false)(s, 1), 1},
		{"resources", listResources(32, 16)(s, 1), 1},
		{"group", describeConfigs(kmsg.ConfigResourceTypeGroupConfig, "g", nil, false)(s, 4), 4},
		{"metrics", describeConfigs(kmsg.ConfigResourceTypeClientMetrics, "m", nil, false)(s, 4), 4},
		{"all brokers", describeConfigs(kmsg.ConfigResourceTypeBroker, "", nil, false)(s, 4), 4},
		{"broker", describeConfigs(kmsg.ConfigResourceTypeBroker, "1", []string{"max.connections", "log.retention.ms"}, false)(s, 4), 4},
	} {
		f := flattener{s: s, ignore: []string{"LeaderEpoch", "ErrorMessage"}} // every start leads anew
		f.walk(q.what, reflect.ValueOf(askNode[kmsg.Response](t, n, q.req, q.version)).Elem())
		lines = append(lines, f.lines...)
	}
	slices.Sort(lines)
	return lines
}

// TestManagedFolderChangesHands: deleted records, settings of every kind and
// quotas are the same whoever serves the folder, moldau or Apache Kafka, and
// whoever made them.
func TestManagedFolderChangesHands(t *testing.T) {
	needKafka(t)
	n := newNode(t)
	n.startMoldau(t)
	set := func(r kmsg.Request, version int16) { t.Helper(); askNode[kmsg.Response](t, n, r, version) }
	set(createTopics(createTopic("kept", 1, 1))(nil, 7), 7)
	n.await(t)
	for i := range 6 {
		set(produceTo("kept", 0, plain(fmt.Sprint(i)).bytes())(&side{n: n}, 9), 9)
	}
	const op = kmsg.IncrementalAlterConfigOpSet
	change := func(offset int64, session, interval, connections string, rate float64) {
		t.Helper()
		set(deleteRecords("kept", offset)(nil, 2), 2)
		set(alter(kmsg.ConfigResourceTypeGroupConfig, "g", "consumer.session.timeout.ms", op, &session)(nil, 1), 1)
		set(alter(kmsg.ConfigResourceTypeClientMetrics, "m", "interval.ms", op, &interval)(nil, 1), 1)
		set(alter(kmsg.ConfigResourceTypeBroker, "1", "max.connections", op, &connections)(nil, 1), 1)
		set(alter(kmsg.ConfigResourceTypeBroker, "", "log.retention.ms", op, ptr("-1"))(nil, 1), 1)
		for _, entity := range []string{"user", "user=u", "user=u client-id=c"} {
			set(setQuota(false, entity, "producer_byte_rate", rate)(nil, 1), 1)
		}
		n.await(t)
	}
	change(2, "50000", "10000", "5000", 1e6)
	byMoldau := managed(t, n)
	n.stop(t)
	n.startKafka(t)
	if got := managed(t, n); !slices.Equal(got, byMoldau) {
		t.Errorf("Apache Kafka finds\n%s", differing(byMoldau, got))
	}
	change(4, "55000", "20000", "6000", 2e6)
	byKafka := managed(t, n)
	if slices.Equal(byKafka, byMoldau) {
		t.Fatal("nothing has changed")
	}
	n.stop(t)
	n.startMoldau(t)
	if got := managed(t, n); !slices.Equal(got, byKafka) {
		t.Errorf("moldau finds\n%s", differing(byKafka, got))
	}
	n.stop(t)
}

func differing(want, got []string) (text string) {
	for _, l := range want {
		if !slices.Contains(got, l) {
			text += "− " + l + "\n"
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			text += "+ " + l + "\n"
		}
	}
	return text
}
