package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/vfs"
)

// patience bounds every wait of these tests; reaching it is a failure.
const patience = 30 * time.Second

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is a whole node in this process.
type node struct {
	t     testing.TB
	dir   string
	fs    vfs.FS
	c     *config.Server
	s     *server.Server
	log   *logBuffer
	level slog.LevelVar
	addr  string
	ctl   string
}

func configOf(t testing.TB, dir string, sets ...string) *config.Server {
	t.Helper()
	props, err := config.ParseProperties(config.Default)
	must(t, err)
	props["listeners"] = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
	props["controller.quorum.bootstrap.servers"] = "127.0.0.1:0"
	props["log.dirs"] = dir
	for _, kv := range sets {
		k, v, _ := strings.Cut(kv, "=")
		props[k] = v
	}
	c, err := config.NewServer(props)
	must(t, err)
	return c
}

// start runs a node in a fresh folder, with settings key=value.
func start(t testing.TB, sets ...string) *node {
	t.Helper()
	return startIn(t, vfs.OS{}, t.TempDir(), sets...)
}

func startIn(t testing.TB, fsys vfs.FS, dir string, sets ...string) *node {
	t.Helper()
	n := &node{t: t, dir: dir, fs: fsys, c: configOf(t, dir, sets...), log: &logBuffer{}}
	n.up()
	t.Cleanup(func() { n.stop() })
	return n
}

func (n *node) up() {
	n.t.Helper()
	s, err := server.Start(server.Options{Config: n.c, FS: n.fs, Log: slog.New(slog.NewTextHandler(n.log, &slog.HandlerOptions{Level: &n.level})), LogLevel: &n.level})
	must(n.t, err)
	select {
	case <-s.Ready():
	case err := <-s.Failed():
		n.t.Fatalf("failed: %v\n%s", err, n.log)
	case <-time.After(patience):
		n.t.Fatalf("not ready\n%s", n.log)
	}
	n.s, n.addr, n.ctl = s, s.Address("PLAINTEXT").String(), s.Address("CONTROLLER").String()
}

func (n *node) stop() error {
	if n.s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := n.s.Stop(ctx)
	n.s = nil
	return err
}

func (n *node) restart() {
	n.t.Helper()
	must(n.t, n.stop())
	n.up()
}

// killed starts a node on what a process that died now would leave behind.
func (n *node) killed() *node {
	n.t.Helper()
	dir := n.t.TempDir()
	must(n.t, os.CopyFS(dir, os.DirFS(n.dir)))
	return startIn(n.t, vfs.OS{}, dir)
}

// client is a connection that speaks raw protocol.
type client struct {
	t    testing.TB
	conn net.Conn
	corr int32
}

func (n *node) dial() *client { n.t.Helper(); return dialTo(n.t, n.addr) }

func dialTo(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	return &client{t: t, conn: conn}
}

// send writes a request in a version and returns its correlation id.
func (c *client) send(req kmsg.Request, version int16) int32 {
	c.t.Helper()
	if _, bench := c.t.(*testing.B); !bench {
		must(c.t, c.conn.SetDeadline(time.Now().Add(patience))) // of this answer
	}
	c.corr++
	req.SetVersion(version)
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))
	_, err := c.conn.Write(f.AppendRequest(nil, req, c.corr))
	must(c.t, err)
	return c.corr
}

func (c *client) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, buf)
	return buf, err
}

// receive reads the answer to the request with a correlation id. Every answer
// must decode without a byte left, and encode to the same bytes again.
func (c *client) receive(req kmsg.Request, corr int32) kmsg.Response {
	c.t.Helper()
	buf, err := c.frame()
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if got := int32(binary.BigEndian.Uint32(buf)); got != corr {
		c.t.Fatalf("answer %d, want %d", got, corr)
	}
	buf = buf[4:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != 18 {
		if buf[0] != 0 {
			c.t.Fatalf("tags in a response header: % x", buf[:8])
		}
		buf = buf[1:]
	}
	if err := resp.ReadFrom(buf); err != nil {
		c.t.Fatalf("%s v%d: %v in % x", kmsg.NameForKey(req.Key()), req.GetVersion(), err, buf)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, buf) {
		c.t.Fatalf("%s v%d: %d bytes were sent, of which kmsg makes %d\nsent % x\nmade % x", kmsg.NameForKey(req.Key()), req.GetVersion(), len(buf), len(again), buf, again)
	}
	return resp
}

func call[R kmsg.Response](c *client, req kmsg.Request, version int16) R {
	c.t.Helper()
	return c.receive(req, c.send(req, version)).(R)
}

// closed fails unless the server closes the connection without an answer.
func (c *client) closed(what string) {
	c.t.Helper()
	var b [1]byte
	n, err := c.conn.Read(b[:])
	if n > 0 || err == nil {
		c.t.Fatalf("%s: answered instead of closed", what)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Fatalf("%s: neither answered nor closed", what)
	}
}

// alive fails unless the connection answers.
func (c *client) alive() {
	c.t.Helper()
	call[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 1)
}

// create makes a topic and returns its id.
func (c *client) create(name string, partitions int32, settings ...string) kafka.TopicID {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for _, kv := range settings {
		k, v, _ := strings.Cut(kv, "=")
		s := kmsg.NewCreateTopicsRequestTopicConfig()
		s.Name, s.Value = k, &v
		topic.Configs = append(topic.Configs, s)
	}
	req.Topics = append(req.Topics, topic)
	resp := call[*kmsg.CreateTopicsResponse](c, req, 7)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		c.t.Fatalf("create %s: %s %v", name, kafka.ErrorCode(code), resp.Topics[0].ErrorMessage)
	}
	return resp.Topics[0].TopicID
}

func (c *client) remove(name string) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{name}
	resp := call[*kmsg.DeleteTopicsResponse](c, req, 5)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		c.t.Fatalf("delete %s: %s", name, kafka.ErrorCode(code))
	}
}

func batchOf(values ...string) batch.Batch { return batchAt(time.Now().UnixMilli(), values...) }

func batchAt(ts int64, values ...string) batch.Batch {
	bl := batch.NewBuilder(nil, 0, 0)
	for _, v := range values {
		bl.Add(kafka.WallMs(ts), nil, []byte(v))
	}
	return bl.Finish()
}

func sequenced(id int64, epoch int16, seq int32, values ...string) batch.Batch {
	bl := batch.NewBuilder(nil, 0, 0)
	bl.ProducerID, bl.ProducerEpoch, bl.BaseSequence = kafka.ProducerID(id), kafka.ProducerEpoch(epoch), kafka.Sequence(seq)
	for _, v := range values {
		bl.Add(kafka.WallMs(time.Now().UnixMilli()), nil, []byte(v))
	}
	return bl.Finish()
}

func produceRequest(topic string, acks int16, records ...[]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i, r := range records {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), r
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// produce sends one batch to partition 0 in version 9.
func (c *client) produce(topic string, b []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return call[*kmsg.ProduceResponse](c, produceRequest(topic, -1, b), 9).Topics[0].Partitions[0]
}

func (c *client) mustProduce(topic string, b []byte) int64 {
	c.t.Helper()
	p := c.produce(topic, b)
	if p.ErrorCode != 0 {
		msg := ""
		if p.ErrorMessage != nil {
			msg = *p.ErrorMessage
		}
		c.t.Fatalf("produce: %s %s", kafka.ErrorCode(p.ErrorCode), msg)
	}
	return p.BaseOffset
}

// want is one partition of a fetch.
type want struct {
	topic     string
	id        kafka.TopicID
	partition int32
	offset    int64
	max       int32
}

func fetchRequest(maxWaitMs, minBytes int32, list ...want) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, maxWaitMs, minBytes, 50<<20, -1
	for _, w := range list {
		if w.max == 0 {
			w.max = 1 << 20
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = w.partition, w.offset, w.max, -1
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != w.topic || req.Topics[n-1].TopicID != w.id {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = w.topic, w.id
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// fetch reads partition 0 of a topic from an offset, without waiting.
func (c *client) fetch(topic string, offset int64) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return call[*kmsg.FetchResponse](c, fetchRequest(0, 0, want{topic: topic, offset: offset}), 11).Topics[0].Partitions[0]
}

func valuesOf(t testing.TB, records []byte) []string {
	t.Helper()
	var out []string
	for len(records) > 0 {
		b, rest, err := batch.Next(records)
		must(t, err)
		plain := b.Records()
		if b.Codec() != batch.None {
			var w batch.Workspace
			plain, err = w.DecompressAll(b.Codec(), b.Records(), 10<<20)
			must(t, err)
		}
		must(t, batch.Each(plain, b.Count(), func(r *batch.Record) error { out = append(out, string(r.Value)); return nil }))
		records = rest
	}
	return out
}

func (c *client) wantValues(topic string, offset int64, values ...string) {
	c.t.Helper()
	p := c.fetch(topic, offset)
	if p.ErrorCode != 0 {
		c.t.Fatalf("fetch %s: %s", topic, kafka.ErrorCode(p.ErrorCode))
	}
	if got := valuesOf(c.t, p.RecordBatches); fmt.Sprint(got) != fmt.Sprint(values) {
		c.t.Fatalf("%s from %d: %q, want %q", topic, offset, got, values)
	}
}

func wantCode(t testing.TB, what string, got int16, want kafka.ErrorCode) {
	t.Helper()
	if kafka.ErrorCode(got) != want {
		t.Fatalf("%s: %s, want %s", what, kafka.ErrorCode(got), want)
	}
}

// epoch is the epoch of the metadata quorum.
func (c *client) epoch() int32 {
	c.t.Helper()
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	p := call[*kmsg.DescribeQuorumResponse](c, req, 2).Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 {
		c.t.Fatalf("quorum: %+v", p)
	}
	return p.LeaderEpoch
}

// committed is the end of the committed metadata.
func (n *node) committed() kafka.Offset { return n.s.Image().Provenance().EndOffset }
