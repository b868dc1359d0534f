package handler

// Requests that change the metadata: they go to the active controller, which
// answers when what it decided, or what its answer rests on, is committed.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

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

func (h *Handler) alterConfigs(c *call) {
	req := kmsg.NewPtrAlterConfigsRequest()
	if !c.decode(req) {
		return
	}
	var refused []kmsg.AlterConfigsResponseResource
	req.Resources = slices.DeleteFunc(req.Resources, func(q kmsg.AlterConfigsRequestResource) bool {
		why := h.notOurBroker(q.ResourceType, q.ResourceName)
		if why != "" {
			r := kmsg.NewAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode, r.ErrorMessage = q.ResourceType, q.ResourceName, int16(kafka.ErrInvalidRequest), &why
			refused = append(refused, r)
		}
		return why != ""
	})
	c.amend = func(resp kmsg.Response) {
		r := resp.(*kmsg.AlterConfigsResponse)
		r.Resources = append(r.Resources, refused...)
	}
	h.submit(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for _, q := range req.Resources {
			r := kmsg.NewAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode = q.ResourceType, q.ResourceName, int16(code)
			resp.Resources = append(resp.Resources, r)
		}
		return resp
	})
}

func (h *Handler) incrementalAlterConfigs(c *call) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	if !c.decode(req) {
		return
	}
	var refused []kmsg.IncrementalAlterConfigsResponseResource
	req.Resources = slices.DeleteFunc(req.Resources, func(q kmsg.IncrementalAlterConfigsRequestResource) bool {
		why := h.notOurBroker(q.ResourceType, q.ResourceName)
		if why != "" {
			r := kmsg.NewIncrementalAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode, r.ErrorMessage = q.ResourceType, q.ResourceName, int16(kafka.ErrInvalidRequest), &why
			refused = append(refused, r)
		}
		return why != ""
	})
	c.amend = func(resp kmsg.Response) {
		r := resp.(*kmsg.IncrementalAlterConfigsResponse)
		r.Resources = append(r.Resources, refused...)
	}
	h.submit(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, q := range req.Resources {
			r := kmsg.NewIncrementalAlterConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode = q.ResourceType, q.ResourceName, int16(code)
			resp.Resources = append(resp.Resources, r)
		}
		return resp
	})
}

// notOurBroker says why a change of a broker's settings was sent to the wrong
// place: a broker takes only its own and the defaults of all, so that it can
// check them (ConfigAdminManager.preprocess). A controller takes any.
func (h *Handler) notOurBroker(t kmsg.ConfigResourceType, name string) string {
	if t != kmsg.ConfigResourceTypeBroker || name == "" || h.opts.Store == nil {
		return ""
	}
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return "Node id must be an integer, but it is: " + name
	case kafka.NodeID(id) != h.opts.Self:
		return fmt.Sprintf("Unexpected broker id, expected %d, but received %s", h.opts.Self, name)
	}
	return ""
}

func (h *Handler) updateFeatures(c *call) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	h.forward(c, req, func(code kafka.ErrorCode) kmsg.Response {
		resp := kmsg.NewPtrUpdateFeaturesResponse()
		resp.ErrorCode = int16(code)
		return resp
	})
}

// askQuorum has the active controller describe the quorum.
func (h *Handler) askQuorum(c *call) {
	if q := h.opts.Controller.Quorum(); q.Leader == h.opts.Self {
		h.describeQuorum(c)
	} else {
		h.relay(c)
	}
}

// describeQuorum is answered by every node from what it knows of the quorum.
func (h *Handler) describeQuorum(c *call) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	if !c.decode(req) {
		return
	}
	q := h.opts.Controller.Quorum()
	resp := kmsg.NewPtrDescribeQuorumResponse()
	for _, topic := range req.Topics {
		t := kmsg.NewDescribeQuorumResponseTopic()
		t.Topic = topic.Topic
		for _, p := range topic.Partitions {
			t.Partitions = append(t.Partitions, quorumPartition(topic.Topic, p.Partition, &q))
		}
		resp.Topics = append(resp.Topics, t)
	}
	for _, n := range nodesToShow(resp, &q) {
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

// nodesToShow are none if the metadata log was not asked for.
func nodesToShow(resp *kmsg.DescribeQuorumResponse, q *Quorum) []QuorumNode {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if resp.Topics[i].Partitions[j].ErrorCode == 0 {
				return q.Nodes
			}
		}
	}
	return nil
}

func quorumPartition(topic string, n int32, q *Quorum) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.Partition = n
	if topic != kafka.ClusterMetadataTopic || n != 0 {
		p.ErrorCode = int16(kafka.ErrUnknownTopicOrPartition)
		p.ErrorMessage = text(fmt.Sprintf("%s-%d is not the metadata log", topic, n))
		return p
	}
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
