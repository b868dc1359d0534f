package interop

import (
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// side is one of the two servers whose answers are compared.
type side struct {
	n     *node
	conn  *rawConn
	later *rawConn // over the listener at n.more
	ids   map[[16]byte]string
	names map[string][16]byte

	members map[string]string // member ids, by group
}

// compareCase is a request that both servers get, in each version of a range.
type compareCase struct {
	name     string
	from, to int16
	req      func(s *side, v int16) kmsg.Request
	ignore   []string // names of fields that may differ
	ordered  bool     // the order of lists of structs matters
	settle   bool     // wait until the broker knows and does what the request changed
	later    bool     // ask over the listener at node.more

	until func(kmsg.Response) bool       // ask again until it holds
	after func(s *side, r kmsg.Response) // sees the answer
}

// difference is one that is there on purpose, or was measured to be harmless.
type difference struct {
	name  string // regular expression over the case's name
	field string // regular expression over the path of the field
	why   string
	seen  bool
}

func (s *side) refresh(t *testing.T) {
	t.Helper()
	m := askNode[*kmsg.MetadataResponse](t, s.n, &kmsg.MetadataRequest{}, 12)
	s.ids, s.names = map[[16]byte]string{}, map[string][16]byte{}
	for _, topic := range m.Topics {
		if topic.Topic != nil {
			s.ids[topic.TopicID], s.names[*topic.Topic] = *topic.Topic, topic.TopicID
		}
	}
}

// ask gives the answer as lines "path: value", or how the connection ended.
func (s *side) ask(t *testing.T, c *compareCase, v int16) []string {
	t.Helper()
	conn, address := &s.conn, s.n.addr()
	if c.later {
		conn, address = &s.later, fmt.Sprintf("127.0.0.1:%d", s.n.more)
	}
	if *conn == nil {
		dialed, err := dialUntil(address)
		if err != nil {
			t.Fatal(err)
		}
		*conn = dialed
	}
	req := c.req(s, v)
	req.SetVersion(v)
	resp, err := (*conn).ask(req)
	if err != nil {
		(*conn).Close()
		*conn = nil
		what := err.Error()
		if strings.Contains(what, "EOF") || strings.Contains(what, "reset") {
			what = "closed"
		}
		return []string{"connection: " + what}
	}
	for end := time.Now().Add(60 * time.Second); c.until != nil && !c.until(resp); {
		if time.Now().After(end) {
			t.Fatalf("%s: %s: still\n%+v", s.n.proc.name, c.name, resp)
		}
		if resp, err = (*conn).ask(req); err != nil {
			t.Fatal(err)
		}
	}
	if c.after != nil {
		c.after(s, resp)
	}
	f := flattener{s: s, ignore: c.ignore, ordered: c.ordered}
	f.walk("", reflect.ValueOf(resp).Elem())
	return f.lines
}

// flattener writes a response as lines, without what must differ.
type flattener struct {
	s       *side
	ignore  []string
	ordered bool
	lines   []string
}

var alwaysIgnored = []string{"Version", "ThrottleMillis", "UnknownTags", "SessionID"}

func (f *flattener) walk(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if !slices.Contains(alwaysIgnored, name) && !slices.Contains(f.ignore, name) {
				f.walk(path+"."+name, v.Field(i))
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			f.add(path, "null")
			return
		}
		f.walk(path, v.Elem())
	case reflect.Slice:
		f.slice(path, v)
	case reflect.Array:
		f.add(path, f.id(v.Interface().([16]byte)))
	default:
		f.add(path, f.text(path, fmt.Sprint(v.Interface())))
	}
}

func (f *flattener) slice(path string, v reflect.Value) {
	if b, ok := v.Interface().([]byte); ok {
		f.add(path, fmt.Sprintf("%d bytes %x", len(b), b))
		return
	}
	if v.IsNil() {
		f.add(path, "null list")
		return
	}
	f.add(path, fmt.Sprintf("%d elements", v.Len()))
	var blocks []string
	for i := range v.Len() {
		sub := flattener{s: f.s, ignore: f.ignore, ordered: f.ordered}
		sub.walk("", v.Index(i))
		blocks = append(blocks, strings.Join(sub.lines, "\n"))
	}
	if !f.ordered {
		sort.Strings(blocks)
	}
	for i, b := range blocks {
		for _, line := range strings.Split(b, "\n") {
			f.lines = append(f.lines, fmt.Sprintf("%s[%d]%s", path, i, line))
		}
	}
}

func (f *flattener) add(path, value string) { f.lines = append(f.lines, path+": "+value) }

func (f *flattener) id(id [16]byte) string {
	if name, ok := f.s.ids[id]; ok {
		return "id of " + name
	}
	if id == [16]byte{} {
		return "no id"
	}
	return "some id"
}

var uuidInText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var idInText = regexp.MustCompile(`[A-Za-z0-9_-]{22}`)

func (f *flattener) text(path, v string) string {
	n := f.s.n
	v = strings.ReplaceAll(strings.ReplaceAll(v, "\n", " "), n.dir, "DIR")
	v = strings.ReplaceAll(v, fmt.Sprint(n.port), "PORT")
	v = strings.ReplaceAll(strings.ReplaceAll(v, fmt.Sprint(n.ctl), "CTL"), fmt.Sprint(n.more), "MORE")
	if strings.Contains(path, "Member") || strings.Contains(path, "LeaderID") {
		v = uuidInText.ReplaceAllString(v, "UUID")
	}
	if strings.HasSuffix(path, "ClusterID") {
		return "CLUSTER"
	}
	if strings.Contains(path, "Message") {
		v = idInText.ReplaceAllString(v, "ID")
	}
	return v
}

// compare runs the cases against both servers in order.
func compare(t *testing.T, kafka, moldau *side, cases []compareCase, known []difference) {
	for i := range cases {
		c := &cases[i]
		t.Run(c.name, func(t *testing.T) {
			for v := c.from; v <= c.to; v++ {
				kafka.refresh(t)
				moldau.refresh(t)
				want, got := kafka.ask(t, c, v), moldau.ask(t, c, v)
				if c.settle {
					kafka.n.catchUp(t)
					moldau.n.catchUp(t)
				}
				report(t, c, v, want, got, known)
			}
		})
	}
}

func report(t *testing.T, c *compareCase, v int16, want, got []string, known []difference) {
	t.Helper()
	w, g := byPath(want), byPath(got)
	paths := map[string]bool{}
	for p := range w {
		paths[p] = true
	}
	for p := range g {
		paths[p] = true
	}
	sorted := make([]string, 0, len(paths))
	for p := range paths {
		sorted = append(sorted, p)
	}
	sort.Strings(sorted)
	for _, p := range sorted {
		_, ours := g[p]
		if w[p] == g[p] || ours && sameWords(p, w[p], g[p]) || excused(c.name, p, known) {
			continue
		}
		t.Errorf("version %d %s\n\tKafka  %s\n\tmoldau %s", v, p, orAbsent(w, p), orAbsent(g, p))
	}
}

// sameWords is the rule for texts for people: where Kafka explains, moldau
// must, in its own words; it may explain more.
func sameWords(path, want, got string) bool {
	if !strings.HasSuffix(path, "Message") && !strings.HasSuffix(path, "Documentation") {
		return false
	}
	return want == "null" || want == "" || want == "NONE" || got != "null" && got != ""
}

func orAbsent(m map[string]string, p string) string {
	if v, ok := m[p]; ok {
		return v
	}
	return "(absent)"
}

func byPath(lines []string) map[string]string {
	m := map[string]string{}
	for _, l := range lines {
		path, value, _ := strings.Cut(l, ": ")
		m[path] = value
	}
	return m
}

func excused(name, path string, known []difference) bool {
	for i := range known {
		d := &known[i]
		if regexp.MustCompile(d.name).MatchString(name) && regexp.MustCompile(d.field).MatchString(path) {
			d.seen = true
			return true
		}
	}
	return false
}

// TestAnswersAreKafkas sends the same requests to Apache Kafka 4.4 and moldau and
// compares the answers field by field.
func TestAnswersAreKafkas(t *testing.T) {
	needKafka(t)
	k, m := newNode(t, compareProperties...), newNode(t, compareProperties...)
	for _, n := range []*node{k, m} {
		n.add(t, fmt.Sprintf("advertised.listeners=PLAINTEXT://%s", n.addr())) // others may come and go
	}
	k.startKafka(t)
	m.startMoldau(t)
	kafka, moldau := &side{n: k}, &side{n: m}
	warmUp(t, k, m)
	known := knownDifferences()
	for _, group := range []struct {
		name  string
		cases []compareCase
	}{
		{"admin", adminCases()}, {"old", oldCases()}, {"alter", moreAlterCases()}, {"describe", describeCases()}, {"produce", produceCases()}, {"offsets", offsetCases()}, {"many", manyCases()}, {"fetch", fetchCases()}, {"groups", groupCases()},
		{"settings", settingCases()}, {"consoles", consoleCases()}, {"quotas", quotaCases()}, {"producers", producerCases()}, {"records", deleteRecordsCases()},
	} {
		t.Run(group.name, func(t *testing.T) { compare(t, kafka, moldau, group.cases, known) })
	}
	t.Run("listeners", func(t *testing.T) { compareListeners(t, kafka, moldau, known) })
	t.Run("versions", func(t *testing.T) { compareVersions(t, kafka, moldau) })
	for _, d := range known {
		if !d.seen && !t.Failed() {
			t.Errorf("the listed difference %q %q does not show any more: take it off the list", d.name, d.field)
		}
	}
}

// compareVersions checks that each version that is advertised is what Kafka
// advertises for that API.
func compareVersions(t *testing.T, kafka, moldau *side) {
	ranges := func(s *side) map[int16][2]int16 {
		r := askNode[*kmsg.ApiVersionsResponse](t, s.n, &kmsg.ApiVersionsRequest{ClientSoftwareName: "interop", ClientSoftwareVersion: "1"}, 4)
		out := map[int16][2]int16{}
		for _, k := range r.ApiKeys {
			out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		return out
	}
	theirs, ours := ranges(kafka), ranges(moldau)
	for key, r := range ours {
		if theirs[key] != r {
			t.Errorf("%s: Kafka has %v, moldau %v", kmsg.NameForKey(key), theirs[key], r)
		}
	}
	if len(ours) < 19 {
		t.Errorf("only %d APIs are advertised", len(ours))
	}
}

var compareProperties = []string{"auto.create.topics.enable=false", "log.retention.ms=-1", "log.retention.check.interval.ms=600000", "group.initial.rebalance.delay.ms=0",
	"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTRA:PLAINTEXT,NEW:PLAINTEXT"}

// catchUp waits until the broker has taken in every change of the metadata so far.
// It takes them in one after the other, the controller answers before that: so
// when the second of two more has come, all that was before the first is done.
func (n *node) catchUp(t *testing.T) {
	t.Helper()
	n.await(t)
	mark := &side{n: n}
	described := describeQuotas(true, filter("user", kmsg.QuotasMatchTypeExact, "mark"))(mark, 1)
	for _, value := range []float64{1e9, 0} { // 0 takes it away
		if r := askNode[*kmsg.AlterClientQuotasResponse](t, n, setQuota(false, "user=mark", "consumer_byte_rate", value)(mark, 1), 1); r.Entries[0].ErrorCode != 0 {
			t.Fatalf("%s: %+v", n.proc.name, r)
		}
		for end := time.Now().Add(60 * time.Second); ; runtime.Gosched() {
			entries := askNode[*kmsg.DescribeClientQuotasResponse](t, n, described, 1).Entries
			if (len(entries) > 0) == (value > 0) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s does not take in what has changed", n.proc.name)
			}
		}
	}
}

func topicID(s *side, name string) [16]byte {
	if id, ok := s.names[name]; ok {
		return id
	}
	return [16]byte{0xde, 0xad, 0xbe, 0xef, 5: 1}
}

func ptr[T any](v T) *T { return &v }

// recent gives a timestamp that is the same for both servers.
var recent = time.Now().UnixMilli()

// warmUp asks for producer ids until both servers have a block to give from.
func warmUp(t *testing.T, nodes ...*node) {
	for _, n := range nodes {
		for range 200 {
			r := askNode[*kmsg.InitProducerIDResponse](t, n, &kmsg.InitProducerIDRequest{ProducerID: -1, ProducerEpoch: -1, TransactionTimeoutMillis: 1000}, 4)
			if r.ErrorCode == 0 {
				break
			}
			select {
			case <-n.proc.ended:
				t.Fatalf("%s ended: %v\n%s", n.proc.name, n.proc.err, n.tail())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}
