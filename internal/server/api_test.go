package server_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// legal makes the smallest legal request of an API.
func legal(key, version int16, id kafka.TopicID) kmsg.Request {
	topic := "t"
	switch key {
	case 0:
		req := produceRequest("t", 1, batchOf("x"))
		req.Topics[0].TopicID = id
		return req
	case 1:
		return fetchRequest(0, 0, want{topic: "t", id: id})
	case 2:
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		q := kmsg.NewListOffsetsRequestTopic()
		q.Topic = "t"
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = -1, -1
		q.Partitions = append(q.Partitions, p)
		req.Topics = append(req.Topics, q)
		return req
	case 3:
		req := kmsg.NewPtrMetadataRequest()
		q := kmsg.NewMetadataRequestTopic()
		q.Topic = &topic
		req.Topics = append(req.Topics, q)
		return req
	case 10:
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g"}
		return req
	case 18:
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "raw", "1.0"
		return req
	case 23:
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		q := kmsg.NewOffsetForLeaderEpochRequestTopic()
		q.Topic = "t"
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = -1, 0
		q.Partitions = append(q.Partitions, p)
		req.Topics = append(req.Topics, q)
		return req
	case 32:
		req := kmsg.NewPtrDescribeConfigsRequest()
		q := kmsg.NewDescribeConfigsRequestResource()
		q.ResourceType, q.ResourceName = 2, "t"
		req.Resources = append(req.Resources, q)
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		return req
	case 55:
		req := kmsg.NewPtrDescribeQuorumRequest()
		q := kmsg.NewDescribeQuorumRequestTopic()
		q.Topic = "__cluster_metadata"
		q.Partitions = append(q.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		req.Topics = append(req.Topics, q)
		return req
	case 60:
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 1
		return req
	}
	return kmsg.RequestForKey(key)
}

// HC-138, HC-155, HC-134: every advertised API answers a minimal request in
// every advertised version, in exactly the bytes of that version; what lies
// outside closes the connection. Fails if a version above what is implemented
// is advertised, or if one line of firstFlexible is wrong.
func TestHC138EveryAdvertisedVersionAnswers(t *testing.T) {
	n := start(t)
	id := n.dial().create("t", 1)
	for _, addr := range []string{n.addr, n.ctl} {
		c := dialTo(t, addr)
		av := call[*kmsg.ApiVersionsResponse](c, legal(18, 4, id), 4)
		wantCode(t, "ApiVersions", av.ErrorCode, 0)
		offered := map[int16]kmsg.ApiVersionsResponseApiKey{}
		last := int16(-1)
		for _, k := range av.ApiKeys {
			if k.ApiKey <= last {
				t.Fatalf("API %d is listed after %d", k.ApiKey, last)
			}
			last = k.ApiKey
			offered[k.ApiKey] = k
			lowest := k.MinVersion
			if k.ApiKey == 0 {
				lowest = 3 // HC-139
			}
			if known := kmsg.RequestForKey(k.ApiKey).MaxVersion(); k.MaxVersion > known {
				t.Errorf("%s v%d is advertised, Kafka has up to %d", kmsg.NameForKey(k.ApiKey), k.MaxVersion, known)
			}
			for v := lowest; v <= k.MaxVersion; v++ {
				req := legal(k.ApiKey, v, id)
				if addr == n.ctl && k.ApiKey == 60 {
					req.(*kmsg.DescribeClusterRequest).EndpointType = 2
				}
				resp := c.receive(req, c.send(req, v))
				if f, ok := resp.(*kmsg.FetchResponse); ok && addr == n.ctl {
					if v >= 7 {
						wantCode(t, "Fetch of another topic than the metadata log", f.ErrorCode, kafka.ErrInvalidRequest)
					}
					continue
				}
				if code := topCode(resp); code != 0 {
					t.Errorf("%s v%d: %s", kmsg.NameForKey(k.ApiKey), v, kafka.ErrorCode(code))
				}
			}
			for _, v := range []int16{lowest - 1, k.MaxVersion + 1, math.MaxInt16, math.MinInt16} {
				if k.ApiKey == 18 {
					continue
				}
				c := dialTo(t, addr)
				raw(c, k.ApiKey, v, 5, []byte{0, 0, 0, 0, 0, 0, 0, 0})
				c.closed(fmt.Sprintf("%s v%d", kmsg.NameForKey(k.ApiKey), v))
			}
		}
		if addr == n.addr && (offered[0].MinVersion != 0 || offered[0].MaxVersion < 13 || offered[1].MinVersion != 4) {
			t.Errorf("HC-139: Produce %+v, Fetch %+v", offered[0], offered[1])
		}
		for key := int16(-1); key < 100; key++ {
			if _, ok := offered[key]; !ok {
				c := dialTo(t, addr)
				raw(c, key, 0, 5, make([]byte, 8))
				c.closed(fmt.Sprintf("API %d", key))
			}
		}
	}
}

// topCode is the error that a response carries as a whole or for its only
// partition, topic or resource; 0 if there is none to be ashamed of.
func topCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.FetchResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.ListOffsetsResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.MetadataResponse:
		return r.Topics[0].ErrorCode
	case *kmsg.OffsetForLeaderEpochResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.DescribeConfigsResponse:
		return r.Resources[0].ErrorCode
	case *kmsg.InitProducerIDResponse:
		return r.ErrorCode
	case *kmsg.DescribeClusterResponse:
		return r.ErrorCode
	case *kmsg.DescribeQuorumResponse:
		return r.ErrorCode + r.Topics[0].Partitions[0].ErrorCode
	case *kmsg.DescribeLogDirsResponse:
		return r.ErrorCode + r.Dirs[0].ErrorCode
	}
	return 0
}

// raw writes a frame with a header without tags.
func raw(c *client, key, version int16, corr int32, body []byte) {
	c.t.Helper()
	b := binary.BigEndian.AppendUint32(nil, uint32(8+2+3+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(corr))
	b = append(b, 0, 3, 'r', 'a', 'w')
	_, err := c.conn.Write(append(b, body...))
	must(c.t, err)
}

// HC-133: fails if the body of an unknown version is parsed, or if the answer
// lists more than the one API.
func TestHC133ApiVersionsFromTheFuture(t *testing.T) {
	n := start(t)
	for _, addr := range []string{n.addr, n.ctl} {
		c := dialTo(t, addr)
		for _, version := range []int16{6, 9, 99, math.MaxInt16, -1} {
			raw(c, 18, version, 7, bytes.Repeat([]byte{0xff}, 20))
			buf, err := c.frame()
			must(t, err)
			want := []byte{0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}
			if !bytes.Equal(buf, want) {
				t.Fatalf("version %d: % x, want % x", version, buf, want)
			}
		}
		req := kmsg.NewPtrApiVersionsRequest()
		for name, code := range map[string]kafka.ErrorCode{"raw": 0, "": kafka.ErrInvalidRequest, "-x": kafka.ErrInvalidRequest, "a b": kafka.ErrInvalidRequest, "a.b-c": 0} {
			req.ClientSoftwareName, req.ClientSoftwareVersion = name, "1"
			wantCode(t, name, call[*kmsg.ApiVersionsResponse](c, req, 3).ErrorCode, code)
		}
	}
}

// HC-157: fails if correlation ids are used as keys.
func TestHC157CorrelationIDsComeBack(t *testing.T) {
	n := start(t)
	n.dial().create("t", 1)
	c := n.dial()
	ids := []int32{math.MaxInt32, math.MinInt32, -1, 0, 0, 0}
	req := produceRequest("t", 1, batchOf("x"))
	req.SetVersion(9)
	for _, id := range ids {
		_, err := c.conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, id))
		must(t, err)
	}
	for _, id := range ids {
		c.receive(req, id)
	}
}

func metadataFor(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		q := kmsg.NewMetadataRequestTopic()
		q.Topic = &name
		req.Topics = append(req.Topics, q)
	}
	return req
}

// HC-135: fails if version 0 takes an empty list for none, or later ones for all.
func TestHC135MetadataNullEmptyUnknown(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 2)
	for _, q := range []struct {
		version int16
		null    bool
		topics  int
	}{{0, false, 1}, {1, true, 1}, {1, false, 0}, {4, true, 1}, {12, true, 1}, {12, false, 0}, {13, true, 1}} {
		req := metadataFor()
		if q.null {
			req.Topics = nil
		}
		resp := call[*kmsg.MetadataResponse](c, req, q.version)
		if len(resp.Topics) != q.topics || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 {
			t.Errorf("v%d null %v: %d topics, brokers %+v", q.version, q.null, len(resp.Topics), resp.Brokers)
		}
	}
	for v := int16(0); v <= 13; v++ {
		req := metadataFor("nope", "no/pe", "t")
		req.AllowAutoTopicCreation = false
		if v < 4 {
			req = metadataFor("no/pe", "t")
		}
		resp := call[*kmsg.MetadataResponse](c, req, v)
		for _, topic := range resp.Topics {
			switch *topic.Topic {
			case "nope":
				wantCode(t, "nope", topic.ErrorCode, kafka.ErrUnknownTopicOrPartition)
			case "no/pe":
				wantCode(t, "no/pe", topic.ErrorCode, kafka.ErrInvalidTopicException)
			default:
				wantCode(t, "t", topic.ErrorCode, 0)
				if len(topic.Partitions) != 2 || v >= 10 && topic.TopicID != id {
					t.Errorf("v%d: %+v", v, topic)
				}
				continue
			}
			if len(topic.Partitions) != 0 {
				t.Errorf("v%d %s: partitions %v", v, *topic.Topic, topic.Partitions)
			}
		}
	}
	for _, v := range []int16{12, 13} { // before 12 Kafka refuses ids
		req := kmsg.NewPtrMetadataRequest()
		q := kmsg.NewMetadataRequestTopic()
		q.TopicID = [16]byte{1, 2, 3}
		known := q
		known.TopicID = id
		req.Topics = append(req.Topics, q, known)
		resp := call[*kmsg.MetadataResponse](c, req, v)
		wantCode(t, "unknown id", resp.Topics[0].ErrorCode, kafka.ErrUnknownTopicID)
		if resp.Topics[0].Topic != nil || resp.Topics[0].TopicID != q.TopicID {
			t.Errorf("v%d: unknown id is answered %+v", v, resp.Topics[0])
		}
		wantCode(t, "known id", resp.Topics[1].ErrorCode, 0)
	}
}

// HC-136: fails if a version below 4 does not create, one that says no does, or
// if many who ask at once are not all served by one creation.
func TestHC136AutomaticCreation(t *testing.T) {
	n := start(t, "num.partitions=3")
	ask := func(c *client, version int16, allow bool, name string) int16 {
		req := metadataFor(name)
		req.AllowAutoTopicCreation = allow
		return call[*kmsg.MetadataResponse](c, req, version).Topics[0].ErrorCode
	}
	c := n.dial()
	wantCode(t, "said no", ask(c, 9, false, "no"), kafka.ErrUnknownTopicOrPartition)
	wantCode(t, "illegal", ask(c, 9, true, "a:b"), kafka.ErrInvalidTopicException)
	wantCode(t, "first answer", ask(c, 9, true, "yes"), kafka.ErrUnknownTopicOrPartition)
	wantCode(t, "version 3", ask(c, 3, false, "old"), kafka.ErrUnknownTopicOrPartition)
	done := make(chan error, 8)
	for range 8 {
		c := n.dial()
		go func() {
			for _, name := range []string{"yes", "old", "busy"} {
				for i := 0; ; i++ {
					req := metadataFor(name)
					req.AllowAutoTopicCreation = true
					topic := call[*kmsg.MetadataResponse](c, req, 9).Topics[0]
					if topic.ErrorCode == 0 {
						if len(topic.Partitions) != 3 || topic.Partitions[0].Leader != 1 {
							done <- fmt.Errorf("%s: %+v", name, topic)
							return
						}
						break
					}
					if topic.ErrorCode != 3 || i > 100_000 {
						done <- fmt.Errorf("%s: %s", name, kafka.ErrorCode(topic.ErrorCode))
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		must(t, <-done)
	}
	wantCode(t, "said no, still", ask(c, 9, false, "no"), kafka.ErrUnknownTopicOrPartition)
	off := start(t, "auto.create.topics.enable=false")
	c = off.dial()
	before := off.committed()
	wantCode(t, "switched off", ask(c, 9, true, "x"), kafka.ErrUnknownTopicOrPartition)
	c.create("y", 1)
	if off.s.Image().TopicByName("x").Exists() || off.committed() <= before {
		t.Fatal("created though it is switched off")
	}
}

// HC-149: brokers and controllers are named by the listener that was asked, and
// nobody else. Fails if the first endpoint is taken.
func TestHC149EndpointsOfTheListener(t *testing.T) {
	n := start(t)
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 1
	resp := call[*kmsg.DescribeClusterResponse](n.dial(), req, 2)
	if len(resp.Brokers) != 1 || fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port) != n.addr {
		t.Fatalf("%+v, listening on %s", resp.Brokers, n.addr)
	}
	c := dialTo(t, n.ctl)
	wantCode(t, "brokers of a controller", call[*kmsg.DescribeClusterResponse](c, req, 2).ErrorCode, kafka.ErrMismatchedEndpointType)
	req.EndpointType = 2
	resp = call[*kmsg.DescribeClusterResponse](c, req, 2)
	if len(resp.Brokers) != 1 || fmt.Sprintf("%s:%d", resp.Brokers[0].Host, resp.Brokers[0].Port) != n.ctl {
		t.Fatalf("%+v, listening on %s", resp.Brokers, n.ctl)
	}
	req.EndpointType = 7
	wantCode(t, "type 7", call[*kmsg.DescribeClusterResponse](c, req, 1).ErrorCode, kafka.ErrUnsupportedEndpointType)
	wantCode(t, "FindCoordinator", call[*kmsg.FindCoordinatorResponse](n.dial(), legal(10, 4, kafka.TopicID{}), 4).Coordinators[0].ErrorCode, kafka.ErrCoordinatorNotAvailable)
}
