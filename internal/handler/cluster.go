package handler

// DescribeCluster (v1: brokers or controllers; v2: fenced brokers) and
// DescribeLogDirs (v3: top-level error; v4: sizes of volumes; v5: cordoned).

import (
	"sort"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/partition"
)

// Kinds of endpoints that DescribeCluster can be asked for.
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

func (h *Handler) clusterResponse(c *call, offered int8, wrongCode kafka.ErrorCode) (*kmsg.DescribeClusterRequest, *kmsg.DescribeClusterResponse, bool) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = brokerEndpoints
	if !c.decode(req) {
		return nil, nil, false
	}
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.EndpointType, resp.ControllerID = h.opts.ClusterID, offered, -1
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{}
	resp.ClusterAuthorizedOperations = noOperations
	if c.Version >= 1 && req.EndpointType != offered {
		resp.EndpointType, resp.ClusterID = brokerEndpoints, ""
		if req.EndpointType != brokerEndpoints && req.EndpointType != controllerEndpoints {
			wrongCode = kafka.ErrUnsupportedEndpointType
		}
		resp.ErrorCode = int16(wrongCode)
		resp.ErrorMessage = text("The request was sent to an endpoint of the wrong type.")
		c.reply(resp)
		return nil, nil, false
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return req, resp, true
}

func (h *Handler) describeCluster(c *call) {
	req, resp, ok := h.clusterResponse(c, brokerEndpoints, kafka.ErrMismatchedEndpointType)
	if !ok {
		return
	}
	img := h.opts.Image()
	resp.ControllerID = h.anyBroker(img, c.Peer.Listener) // one of those that are listed (AuthHelper)
	img.EachBroker(func(b *metadata.Broker) bool {
		if b.Fenced && !(c.Version >= 2 && req.IncludeFencedBrokers) {
			return true
		}
		e, ok := b.Endpoint(c.Peer.Listener)
		if !ok {
			return true
		}
		m := kmsg.NewDescribeClusterResponseBroker()
		m.NodeID, m.Host, m.Port, m.IsFenced = int32(b.ID), e.Host, int32(e.Port), b.Fenced
		if b.HasRack {
			m.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, m)
		return true
	})
	c.reply(resp)
}

func (h *Handler) describeControllers(c *call) {
	_, resp, ok := h.clusterResponse(c, controllerEndpoints, kafka.ErrMismatchedEndpointType)
	if !ok {
		return
	}
	q := h.opts.Controller.Quorum()
	resp.ControllerID = int32(q.Leader)
	for _, n := range q.Nodes {
		for _, e := range n.Endpoints {
			if e.Name == c.Peer.Listener {
				m := kmsg.NewDescribeClusterResponseBroker()
				m.NodeID, m.Host, m.Port = int32(n.ID), e.Host, int32(e.Port)
				resp.Brokers = append(resp.Brokers, m)
			}
		}
	}
	c.reply(resp)
}

func (h *Handler) describeLogDirs(c *call) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	if !c.decode(req) {
		return
	}
	wanted := func(kafka.TopicPartition) bool { return true }
	if req.Topics != nil {
		set := map[kafka.TopicPartition]bool{}
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				set[kafka.TopicPartition{Topic: t.Topic, Partition: kafka.PartitionID(p)}] = true
			}
		}
		wanted = func(tp kafka.TopicPartition) bool { return set[tp] }
	}
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	for _, d := range h.opts.Store.Describe() {
		resp.Dirs = append(resp.Dirs, describedDir(d, wanted))
	}
	c.reply(resp)
}

func describedDir(d partition.DirInfo, wanted func(kafka.TopicPartition) bool) kmsg.DescribeLogDirsResponseDir {
	m := kmsg.NewDescribeLogDirsResponseDir()
	m.Dir, m.TotalBytes, m.UsableBytes = d.Path, d.TotalBytes, d.FreeBytes
	m.Topics, m.IsCordoned = []kmsg.DescribeLogDirsResponseDirTopic{}, d.Cordoned
	if d.Offline {
		m.ErrorCode = int16(kafka.ErrKafkaStorageError)
		return m
	}
	sort.Slice(d.Replicas, func(i, j int) bool {
		a, b := &d.Replicas[i], &d.Replicas[j]
		return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
	})
	for _, r := range d.Replicas {
		if r.Offline || !wanted(r.TopicPartition) {
			continue
		}
		if n := len(m.Topics); n == 0 || m.Topics[n-1].Topic != r.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = r.Topic
			m.Topics = append(m.Topics, t)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = int32(r.Partition), r.SizeBytes
		t := &m.Topics[len(m.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return m
}
