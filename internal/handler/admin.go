package handler

// Requests that change the metadata: they go to the active controller, which
// answers when what it decided, or what its answer rests on, is committed.

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// forward decodes a request and has the controller answer it. refuse makes the
// answer that carries code if the controller could not decide.
func (h *Handler) forward(c *call, req kmsg.Request, refuse func(code kafka.ErrorCode) kmsg.Response) {
	if c.decode(req) {
		h.submit(c, req, refuse)
	}
}

func (h *Handler) submit(c *call, req kmsg.Request, refuse func(code kafka.ErrorCode) kmsg.Response) {
	later := *c
	h.opts.Controller.Submit(c.caller(), req, func(resp kmsg.Response, err error) {
		if errors.Is(err, ErrDropClient) {
			go later.Drop(err)
			return
		}
		if err != nil {
			h.opts.Log.Debug("request was not decided", "api", kmsg.NameForKey(later.Key), "error", err)
			code := codeOf(err)
			if code == kafka.ErrNotController && later.in != nil {
				// The broker that sent the envelope looks for the new controller.
				go later.in.fail(code)
				return
			}
			resp = refuse(code)
			explain(resp, err)
		}
		if later.amend != nil {
			later.amend(resp)
		}
		// A slow client must not hold up the controller.
		go later.reply(resp)
	})
}

// ErrDropClient: the controller does not know this version of the API any more;
// the client must connect again to learn what it knows.
var ErrDropClient = errors.New("the controller does not support the version of a forwarded request")

// codeOf is what a client is told of a request that was not decided: to come
// back, unless the controller refused it with a code of its own.
func codeOf(err error) kafka.ErrorCode {
	var refused interface{ ErrorCode() kafka.ErrorCode }
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	return kafka.ErrNotController
}

// explain adds to a refusal the controller's words, if it gave some.
func explain(resp kmsg.Response, err error) {
	var refused interface{ ErrorMessage() string }
	if !errors.As(err, &refused) || refused.ErrorMessage() == "" {
		return
	}
	why := refused.ErrorMessage()
	switch r := resp.(type) {
	case *kmsg.UpdateFeaturesResponse:
		r.ErrorMessage = &why
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			r.Topics[i].ErrorMessage = &why
		}
	case *kmsg.CreatePartitionsResponse:
		for i := range r.Topics {
			r.Topics[i].ErrorMessage = &why
		}
	case *kmsg.AlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ErrorMessage = &why
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for i := range r.Resources {
			r.Resources[i].ErrorMessage = &why
		}
	}
}

func (h *Handler) createTopics(c *call) {
	req := kmsg.NewPtrCreateTopicsRequest()
	h.forward(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrCreateTopicsResponse()
		for _, q := range req.Topics {
			t := kmsg.NewCreateTopicsResponseTopic()
			t.Topic, t.ErrorCode = q.Topic, int16(code)
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	})
}

func (h *Handler) deleteTopics(c *call) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	refuse := func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrDeleteTopicsResponse()
		for i := range req.TopicNames {
			t := kmsg.NewDeleteTopicsResponseTopic()
			t.Topic, t.ErrorCode = &req.TopicNames[i], int16(code)
			resp.Topics = append(resp.Topics, t)
		}
		for _, q := range req.Topics {
			t := kmsg.NewDeleteTopicsResponseTopic()
			t.Topic, t.TopicID, t.ErrorCode = q.Topic, q.TopicID, int16(code)
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
	if !c.decode(req) {
		return
	}
	// ControllerApis.deleteTopics
	switch {
	case !h.opts.KeepTopics:
		h.submit(c, req, refuse)
	case c.Version < 3:
		c.reply(refuse(kafka.ErrInvalidRequest))
	default:
		c.reply(refuse(kafka.ErrTopicDeletionDisabled))
	}
}

func (h *Handler) createPartitions(c *call) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	h.forward(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrCreatePartitionsResponse()
		for _, q := range req.Topics {
			t := kmsg.NewCreatePartitionsResponseTopic()
			t.Topic, t.ErrorCode = q.Topic, int16(code)
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	})
}

func (h *Handler) updateFeatures(c *call) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	h.forward(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrUpdateFeaturesResponse()
		resp.ErrorCode = int16(code)
		return resp
	})
}

// askQuorum has the leader of the quorum answer: this node or, through it, another.
func (h *Handler) askQuorum(c *call) {
	switch q := h.opts.Controller.Quorum(); {
	case !q.Leading:
		h.relay(c)
	case c.Key == 55:
		h.describeQuorum(c)
	default:
		h.raft(c)
	}
}

// describeQuorum is answered by the leader of the quorum: it alone knows how far
// the others are (KafkaRaftClient.handleDescribeQuorumRequest). A request about
// anything but the metadata log alone is refused as a whole.
func (h *Handler) describeQuorum(c *call) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	if !c.decode(req) {
		return
	}
	resp := kmsg.NewPtrDescribeQuorumResponse()
	if !aboutTheQuorum(req) {
		for _, topic := range req.Topics {
			t := kmsg.NewDescribeQuorumResponseTopic()
			t.Topic = topic.Topic
			for _, p := range topic.Partitions {
				t.Partitions = append(t.Partitions, quorumError(p.Partition, kafka.ErrUnknownTopicOrPartition, "This server does not host this topic-partition."))
			}
			resp.Topics = append(resp.Topics, t)
		}
		c.reply(resp)
		return
	}
	q := h.opts.Controller.Quorum()
	t := kmsg.NewDescribeQuorumResponseTopic()
	t.Topic = kafka.ClusterMetadataTopic
	resp.Topics = append(resp.Topics, t)
	parts := &resp.Topics[0].Partitions
	if !q.Leading && c.in != nil {
		c.in.fail(kafka.ErrNotController) // the broker asks the next one
		return
	}
	if !q.Leading {
		*parts = append(*parts, quorumError(0, kafka.ErrNotLeaderForPartition, "This node does not lead the metadata quorum."))
		c.reply(resp)
		return
	}
	*parts = append(*parts, quorumPartition(&q))
	for _, n := range q.Nodes {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = int32(n.ID)
		for _, e := range n.Endpoints {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
			node.Listeners = append(node.Listeners, l)
		}
		resp.Nodes = append(resp.Nodes, node)
	}
	c.reply(resp)
}

func aboutTheQuorum(req *kmsg.DescribeQuorumRequest) bool {
	return len(req.Topics) == 1 && req.Topics[0].Topic == kafka.ClusterMetadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
}

func quorumError(partition int32, code kafka.ErrorCode, why string) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.Partition, p.ErrorCode, p.ErrorMessage = partition, int16(code), &why
	p.CurrentVoters, p.Observers = quorumReplicas(nil), quorumReplicas(nil)
	return p
}

func quorumPartition(q *Quorum) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = int32(q.Leader), int32(q.Epoch), int64(q.HighWatermark)
	p.CurrentVoters, p.Observers = quorumReplicas(q.Voters), quorumReplicas(q.Observers)
	return p
}

func quorumReplicas(list []QuorumReplica) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	out := []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{}
	for _, r := range list {
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = int32(r.ID), r.Directory, int64(r.EndOffset)
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = int64(r.LastFetch), int64(r.CaughtUp)
		out = append(out, s)
	}
	return out
}
