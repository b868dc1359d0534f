package server_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// peak runs f and tells how much the heap in use grew at most, sampled.
func peak(f func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, most := m.HeapInuse, uint64(0)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return most
		case <-tick.C:
			runtime.ReadMemStats(&m)
			if m.HeapInuse > before {
				most = max(most, m.HeapInuse-before)
			}
		}
	}
}

// HC-145: whatever comes, that connection is closed with one line in the log,
// others are served, and nothing that is stored changes. Fails without the
// check of readFrame or of the decoder that the line is about.
func TestHC145HostileBytes(t *testing.T) {
	n := start(t)
	good := n.dial()
	id := good.create("t", 1)
	good.mustProduce("t", batchOf("a"))
	frame := func(key, version int16, body ...byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(10+len(body)))
		b = binary.BigEndian.AppendUint16(b, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		return append(append(b, 0, 0, 0, 9, 0xff, 0xff), body...)
	}
	req := produceRequest("t", 1, batchOf("b"))
	req.SetVersion(9)
	whole := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
	cut := bytes.Clone(whole[:len(whole)-7])
	binary.BigEndian.PutUint32(cut, uint32(len(cut)-4))
	million := []byte{0x7f, 0xff, 0xff, 0xff}
	for what, b := range map[string][]byte{
		"HTTP":                     []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":                      {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"length −1":                {0xff, 0xff, 0xff, 0xff, 0, 0},
		"length 2^31−1":            {0x7f, 0xff, 0xff, 0xff, 0, 0},
		"length 0":                 {0, 0, 0, 0},
		"length 5":                 {0, 0, 0, 5, 0, 3, 0, 1, 0},
		"cut body":                 cut,
		"client id −7":             {0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xf9},
		"client id beyond the end": {0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff},
		"Metadata of 2^31 topics":  frame(3, 1, million...),
		"Metadata v9 of 2^31":      frame(3, 9, 0, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"varint of ten bytes":      frame(3, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"Produce of 2^31 topics":   frame(0, 3, append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 1}, million...)...),
		"Fetch of 2^31 topics":     frame(1, 4, append(make([]byte, 17), million...)...),
		"CreateTopics of 2^31":     frame(19, 2, million...),
		"DeleteTopics of 2^31":     frame(20, 1, million...),
		"no body":                  frame(3, 1),
		"header tags of 2^31":      frame(3, 9, 0xff, 0xff, 0xff, 0xff, 0x0f),
	} {
		c := n.dial()
		_, err := c.conn.Write(b)
		must(t, err)
		c.closed(what)
	}
	good.alive()
	good.wantValues("t", 0, "a")
	if got := n.s.Image().TopicByName("t").ID(); got != id || n.s.Image().NumTopics() != 1 {
		t.Fatal("the metadata has changed")
	}
}

// A thousand connections of garbage, while a good client works. Fails if any of
// it panics, or holds up others.
func TestHC145AThousandConnectionsOfGarbage(t *testing.T) {
	n := start(t)
	good := n.dial()
	good.create("t", 1)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 50)
	growth := peak(func() {
		for seed := range uint64(1000) {
			slots <- struct{}{}
			wg.Add(1)
			go func() {
				defer func() { <-slots; wg.Done() }()
				garbage(t, n.addr, seed)
			}()
			if seed%50 == 0 {
				good.mustProduce("t", batchOf("x"))
			}
		}
		wg.Wait()
	})
	if growth > 200<<20 {
		t.Errorf("the heap grew by %d MB", growth>>20)
	}
	good.wantValues("t", 19, "x")
}

// garbage sends frames with random or damaged content and reads what comes.
func garbage(t *testing.T, addr string, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	keys := []int16{0, 1, 2, 3, 10, 18, 22, 23, 32, 35, 55, 60, 75}
	for range 10 {
		key := keys[rnd.IntN(len(keys))]
		b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(rnd.IntN(14)))
		for range 6 + rnd.IntN(300) {
			v := byte(rnd.Uint32())
			if rnd.IntN(2) == 0 {
				v = byte(rnd.IntN(3))
			}
			b = append(b, v)
		}
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
}

// A decompression bomb costs neither memory nor much time, and is refused by
// the bound of a record. Fails if a batch is decompressed as a whole.
func TestDecompressionBomb(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1, "max.decompressed.message.bytes=1000000")
	c.create("open", 1) // without a bound: it costs time, but no memory
	for _, codec := range []batch.Codec{batch.Gzip, batch.Zstd, batch.LZ4, batch.Snappy} {
		plain := batchOf(string(make([]byte, 64<<20)))
		body, err := batch.Compress(nil, codec, 1, plain.Records())
		must(t, err)
		b := batch.Batch(append(bytes.Clone(plain[:batch.HeaderSize]), body...))
		setCodec(b, codec)
		if len(b) > 900_000 {
			continue // no bomb: it is refused for its size
		}
		plain, body = nil, nil
		var code int16
		growth := peak(func() { code = c.produce("t", b).ErrorCode })
		if code == 0 {
			t.Errorf("%s: a record of 64 MB was taken", codec)
		}
		growth = max(growth, peak(func() { c.produce("open", b) }))
		if growth > 40<<20 {
			t.Errorf("%s: the heap grew by %d MB", codec, growth>>20)
		}
	}
	c.wantValues("t", 0)
}

// Requests that decode to much more than their bytes keep within the budget: at
// most one at a time. Fails if a frame is charged by its length alone.
func TestDecodedSizeIsCharged(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	fetch := fetchRequest(1<<30, 1)
	for range 60_000 {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = 5, 1, -1
		if len(fetch.Topics) == 0 {
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = "t", id
			fetch.Topics = append(fetch.Topics, topic)
		}
		fetch.Topics[0].Partitions = append(fetch.Topics[0].Partitions, p)
	}
	fetch.SetVersion(4)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, fetch, 1)
	var conns []net.Conn
	for range 30 {
		conns = append(conns, n.dial().conn)
	}
	growth := peak(func() {
		var wg sync.WaitGroup
		for _, conn := range conns {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, _ = conn.Write(frame)
				_, _ = io.CopyN(io.Discard, conn, 1<<20)
			}()
		}
		wg.Wait()
	})
	if growth > 300<<20 {
		t.Errorf("the heap grew by %d MB for %d fetches of 60,000 partitions", growth>>20, len(conns))
	}
	c.alive()
}

// Requests whose answers would be much larger than they are: a topic named half
// a million times is answered once, as in Kafka, and a Produce to millions of
// partitions without a batch is no Produce. Fails without onceEach, or without
// the bound in ProduceRequest.Decode.
func TestRepetitionIsNoBomb(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 20)
	names := make([]string, 400_000)
	for i := range names {
		names[i] = "t"
	}
	growth := peak(func() {
		if r := call[*kmsg.MetadataResponse](c, metadataFor(names...), 9); len(r.Topics) != 1 {
			t.Errorf("%d answers for one topic", len(r.Topics))
		}
	})
	bomb := n.dial()
	req := produceRequest("t", 1, make([][]byte, 3_000_000)...)
	req.SetVersion(9)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
	req = nil
	growth = max(growth, peak(func() {
		_, err := bomb.conn.Write(frame)
		must(t, err)
		bomb.closed("a Produce of nothing")
	}))
	if growth > 200<<20 {
		t.Errorf("the heap grew by %d MB", growth>>20)
	}
	c.alive()
}

// Fetches that wait hold no memory that others need. Fails if park keeps the
// frame: eight of them would take the whole budget.
func TestWaitingFetchesFreeTheBudget(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	for range 20 {
		req := fetchRequest(1<<30, 1, want{topic: "t"})
		req.SetVersion(12)
		b := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
		pad := 1_800_000 // as an unknown tag: a legal request
		b = append(b[:len(b)-1], 1, 99)
		b = binary.AppendUvarint(b, uint64(pad))
		b = append(b, make([]byte, pad)...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		_, err := n.dial().conn.Write(b)
		must(t, err)
		c.alive()
	}
	for range 20 {
		c.mustProduce("t", batchOf(string(make([]byte, 900_000))))
	}
}

// Names that could leave the folder, or confuse who reads it, make nothing.
func TestIllegalNamesMakeNothing(t *testing.T) {
	n := start(t)
	c := n.dial()
	for _, name := range []string{"../../x", "a/b", "a\x00", "-", "x-1.deadbeef-delete", "ü", "a b", "\xff\xfe"} {
		req := metadataFor(name)
		req.AllowAutoTopicCreation = true
		r := call[*kmsg.MetadataResponse](c, req, 9).Topics[0]
		ok := name == "-" || name == "x-1.deadbeef-delete"
		if !ok {
			wantCode(t, fmt.Sprintf("%q", name), r.ErrorCode, kafka.ErrInvalidTopicException)
		}
		wantCode(t, fmt.Sprintf("produce to %q", name), c.produce(name+"?", batchOf("x")).ErrorCode, kafka.ErrUnknownTopicOrPartition)
	}
	c.create("x-1", 1)
	c.mustProduce("x-1", batchOf("v"))
	n.restart()
	n.dial().wantValues("x-1", 0, "v")
}
