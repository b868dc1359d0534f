package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// probeInterval is the least pause between two looks at a server that is not
	// ready: the resolution of start times.
	probeInterval = 2 * time.Millisecond
	// probeTimeout bounds one request; a probe may read maxProbeFrame bytes.
	probeTimeout  = 30 * time.Second
	maxProbeFrame = 256 << 20
)

// probe is one plain connection that sends a request and waits for its answer. It
// exists because a client library's retries and back-offs would be measured too.
type probe struct {
	conn      net.Conn
	formatter *kmsg.RequestFormatter
	next      int32
}

// tryProbe connects, checks and closes.
func tryProbe(ctx context.Context, address string, check func(*probe) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return check(&probe{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("moldau-bench"))})
}

// request sends req in the version set on it and returns its answer.
func (p *probe) request(req kmsg.Request) (kmsg.Response, error) {
	p.next++
	if err := p.conn.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return nil, err
	}
	if _, err := p.conn.Write(p.formatter.AppendRequest(nil, req, p.next)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 5 || size > maxProbeFrame {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(p.conn, frame); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != p.next {
		return nil, fmt.Errorf("answer %d to request %d", got, p.next)
	}
	body := frame[4:]
	if req.IsFlexible() {
		if body[0] != 0 {
			return nil, errors.New("tagged fields in a response header")
		}
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, resp.ReadFrom(body)
}

// serving checks that the node answers Metadata with a broker and a controller.
func serving(p *probe) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := p.request(req)
	if err != nil {
		return err
	}
	m := resp.(*kmsg.MetadataResponse)
	if len(m.Brokers) == 0 || m.ControllerID < 0 {
		return fmt.Errorf("%d brokers, controller %d", len(m.Brokers), m.ControllerID)
	}
	return nil
}

// usable returns a check that so many partitions have leaders and that each one's
// leader answers ListOffsets. It assumes a cluster of one. The check is to be called
// again until it passes; it remembers what it saw, so that looking stays cheap for
// the server: leaders that were there once are not asked for again, and of all
// partitions only one that was not ready the last time, until it is.
func usable(partitions int) func(*probe) error {
	u := usability{partitions: partitions}
	return u.check
}

// usability is the memory of a usable check.
type usability struct {
	partitions int
	all        *kmsg.ListOffsetsRequest // nil until metadata is complete
	stuck      *kmsg.ListOffsetsRequest // one partition; nil when none is known
}

// check is what usable returns.
func (u *usability) check(p *probe) error {
	if u.all == nil {
		if err := u.leaders(p); err != nil {
			return err
		}
	}
	if u.stuck != nil {
		if err := u.answer(p, u.stuck, 1); err != nil {
			return err
		}
	}
	return u.answer(p, u.all, u.partitions)
}

// leaders checks the metadata and keeps a request for the offsets of everything.
func (u *usability) leaders(p *probe) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = nil // all
	resp, err := p.request(req)
	if err != nil {
		return err
	}
	ask, found := offsetsRequest(), 0
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode != 0 || t.Topic == nil {
			return fmt.Errorf("metadata of a topic: %w", kerr.ErrorForCode(t.ErrorCode))
		}
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = *t.Topic
		for _, tp := range t.Partitions {
			if tp.Leader < 0 || tp.ErrorCode != 0 {
				return fmt.Errorf("%s-%d: leader %d, error %d", *t.Topic, tp.Partition, tp.Leader, tp.ErrorCode)
			}
			rt.Partitions = append(rt.Partitions, latest(tp.Partition))
			found++
		}
		ask.Topics = append(ask.Topics, rt)
	}
	if found != u.partitions {
		return fmt.Errorf("%d of %d partitions in metadata", found, u.partitions)
	}
	u.all = ask
	return nil
}

// answer checks that every one of so many partitions of the request is answered
// without error, and remembers the first that is not.
func (u *usability) answer(p *probe, ask *kmsg.ListOffsetsRequest, partitions int) error {
	resp, err := p.request(ask)
	if err != nil {
		return err
	}
	answered := 0
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, tp := range t.Partitions {
			answered++
			if err := kerr.ErrorForCode(tp.ErrorCode); err != nil {
				rt := kmsg.NewListOffsetsRequestTopic()
				rt.Topic, rt.Partitions = t.Topic, append(rt.Partitions, latest(tp.Partition))
				u.stuck = offsetsRequest(rt)
				return fmt.Errorf("%s-%d: %w", t.Topic, tp.Partition, err)
			}
		}
	}
	if answered != partitions {
		return fmt.Errorf("%d of %d partitions answered ListOffsets", answered, partitions)
	}
	return nil
}

// offsetsRequest asks for the offsets of the topics as a consumer does.
func offsetsRequest(topics ...kmsg.ListOffsetsRequestTopic) *kmsg.ListOffsetsRequest {
	ask := kmsg.NewPtrListOffsetsRequest()
	ask.Version, ask.ReplicaID, ask.Topics = 7, -1, topics
	return ask
}

// latest asks for a partition's end offset.
func latest(partition int32) kmsg.ListOffsetsRequestTopicPartition {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, -1
	return p
}

// createTopics creates topics first…first+count-1, each with so many partitions,
// in one request.
func createTopics(p *probe, first, count, partitions int) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, int32(probeTimeout.Milliseconds())
	for i := range count {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = fmt.Sprintf("many-%06d", first+i)
		t.NumPartitions, t.ReplicationFactor = int32(partitions), 1
		req.Topics = append(req.Topics, t)
	}
	resp, err := p.request(req)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", t.Topic, err)
		}
	}
	return nil
}
