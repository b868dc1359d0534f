package bench

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeBroker is just enough of a Kafka broker for the client: one node, old
// request versions, batches kept in memory as they came.
type fakeBroker struct {
	t        *testing.T
	listener net.Listener

	mu       sync.Mutex
	topics   map[string][]*fakeLog
	appended chan struct{} // closed and replaced at each append
	// refuse, when not 0, is the error of every Produce.
	refuse int16
}

// fakeLog is one partition.
type fakeLog struct {
	batches [][]byte
	firsts  []int64
	end     int64
}

// fakeVersions are the highest versions that the fake speaks.
func fakeVersions() map[int16]int16 {
	return map[int16]int16{
		int16(kmsg.Produce): 8, int16(kmsg.Fetch): 11, int16(kmsg.ListOffsets): 5, int16(kmsg.Metadata): 7,
		int16(kmsg.ApiVersions): kmsg.NewPtrApiVersionsRequest().MaxVersion(), int16(kmsg.CreateTopics): 4, int16(kmsg.DeleteTopics): 3, int16(kmsg.InitProducerID): 1,
	}
}

// newFakeBroker serves until the test ends.
func newFakeBroker(t *testing.T) *fakeBroker {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeBroker{t: t, listener: listener, topics: map[string][]*fakeLog{}, appended: make(chan struct{})}
	var wg sync.WaitGroup
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); close(done); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				stop := make(chan struct{})
				wg.Go(func() {
					select {
					case <-done:
					case <-stop:
					}
					conn.Close()
				})
				f.serve(conn, done)
				close(stop)
			})
		}
	})
	return f
}

// target is where the fake listens.
func (f *fakeBroker) target() Target { return Target{Brokers: []string{f.listener.Addr().String()}} }

// serve answers requests until the connection ends.
func (f *fakeBroker) serve(conn net.Conn, done chan struct{}) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		resp, err := f.answer(frame, done)
		if err != nil {
			f.t.Errorf("fake broker: %v", err)
			return
		}
		if resp == nil {
			continue
		}
		if _, err := conn.Write(resp); err != nil {
			return
		}
	}
}

// answer decodes a request and encodes its answer; nil for none.
func (f *fakeBroker) answer(frame []byte, done chan struct{}) ([]byte, error) {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	body := frame[10:]
	if n := int16(binary.BigEndian.Uint16(frame[8:])); n > 0 {
		body = body[n:]
	}
	req := kmsg.RequestForKey(key)
	if highest, ok := fakeVersions()[key]; !ok || version > highest {
		return nil, errors.New("version that was not offered")
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		body = body[1:]
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, err
	}
	resp := f.handle(req, done)
	if resp == nil {
		return nil, nil
	}
	resp.SetVersion(version)
	out := append(make([]byte, 4), frame[4:8]...)
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// handle does what a request asks for.
func (f *fakeBroker) handle(req kmsg.Request, done chan struct{}) kmsg.Response {
	if fetch, ok := req.(*kmsg.FetchRequest); ok {
		return f.fetch(fetch, done)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		for key, highest := range fakeVersions() {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: highest})
		}
		return resp
	case *kmsg.MetadataRequest:
		return f.metadata(req)
	case *kmsg.CreateTopicsRequest:
		resp := kmsg.NewPtrCreateTopicsResponse()
		for _, t := range req.Topics {
			rt := kmsg.CreateTopicsResponseTopic{Topic: t.Topic}
			if _, ok := f.topics[t.Topic]; ok {
				rt.ErrorCode = kerr.TopicAlreadyExists.Code
			} else {
				for range t.NumPartitions {
					f.topics[t.Topic] = append(f.topics[t.Topic], &fakeLog{})
				}
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	case *kmsg.DeleteTopicsRequest:
		resp := kmsg.NewPtrDeleteTopicsResponse()
		for _, name := range req.TopicNames {
			delete(f.topics, name)
			resp.Topics = append(resp.Topics, kmsg.DeleteTopicsResponseTopic{Topic: kmsg.StringPtr(name)})
		}
		return resp
	case *kmsg.InitProducerIDRequest:
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID = 1
		return resp
	case *kmsg.ListOffsetsRequest:
		return f.listOffsets(req)
	case *kmsg.ProduceRequest:
		return f.produce(req)
	}
	return nil
}

func (f *fakeBroker) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	address := f.listener.Addr().(*net.TCPAddr)
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "127.0.0.1", Port: int32(address.Port)}}
	resp.ControllerID = 1
	for _, t := range req.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = t.Topic
		logs, ok := f.topics[*t.Topic]
		if !ok {
			rt.ErrorCode = kerr.UnknownTopicOrPartition.Code
		}
		for p := range logs {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.Replicas, rp.ISR = int32(p), 1, []int32{1}, []int32{1}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (f *fakeBroker) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range req.Topics {
		rt := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			if p.Timestamp == latestTimestamp {
				rp.Offset = f.topics[t.Topic][p.Partition].end
			} else {
				rp.Offset = 0
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (f *fakeBroker) produce(req *kmsg.ProduceRequest) kmsg.Response {
	resp := kmsg.NewPtrProduceResponse()
	for _, t := range req.Topics {
		rt := kmsg.ProduceResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, f.refuse
			if log := f.topics[t.Topic][p.Partition]; f.refuse == 0 {
				rp.BaseOffset = log.end
				binary.BigEndian.PutUint64(p.Records, uint64(log.end)) // not under the CRC
				log.batches, log.firsts = append(log.batches, p.Records), append(log.firsts, log.end)
				log.end += int64(binary.BigEndian.Uint32(p.Records[57:]))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	close(f.appended)
	f.appended = make(chan struct{})
	if req.Acks == 0 {
		return nil
	}
	return resp
}

// fetch answers with one batch per partition, or waits for some.
func (f *fakeBroker) fetch(req *kmsg.FetchRequest, done chan struct{}) kmsg.Response {
	timeout := time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	defer timeout.Stop()
	for {
		f.mu.Lock()
		resp, found := f.read(req)
		appended := f.appended
		f.mu.Unlock()
		if found {
			return resp
		}
		select {
		case <-appended:
		case <-timeout.C:
			return resp
		case <-done:
			return resp
		}
	}
}

func (f *fakeBroker) read(req *kmsg.FetchRequest) (*kmsg.FetchResponse, bool) {
	resp, found := kmsg.NewPtrFetchResponse(), false
	for _, t := range req.Topics {
		rt := kmsg.FetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition = p.Partition
			log := f.topics[t.Topic][p.Partition]
			rp.HighWatermark, rp.LastStableOffset = log.end, log.end
			for i, first := range log.firsts {
				if first >= p.FetchOffset {
					rp.RecordBatches, found = log.batches[i], true
					break
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, found
}
