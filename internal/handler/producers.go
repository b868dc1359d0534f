package handler

// DescribeProducers (KIP-664): what a partition knows of those who write to it.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/controller"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

func (h *Handler) describeProducers(c *call) {
	req := kmsg.NewPtrDescribeProducersRequest()
	if !c.decode(req) {
		return
	}
	img := h.opts.Image()
	resp := kmsg.NewPtrDescribeProducersResponse()
	seen := map[kafka.TopicPartition]bool{}
	for _, q := range req.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = q.Topic
		topic := img.TopicByName(q.Topic)
		bad := controller.CheckTopicName(q.Topic)
		for _, n := range q.Partitions {
			tp := kafka.TopicPartition{Topic: q.Topic, Partition: kafka.PartitionID(n)}
			if seen[tp] {
				continue // what is asked twice is answered once: answers can be large
			}
			seen[tp] = true
			if bad == "" {
				t.Partitions = append(t.Partitions, h.producersOf(topic, kafka.PartitionID(n)))
				continue
			}
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = n, int16(kafka.ErrInvalidTopicException), &bad
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	c.reply(resp)
}

// producersOf asks any replica here: it need not lead (Partition.activeProducerState).
func (h *Handler) producersOf(topic metadata.Topic, n kafka.PartitionID) kmsg.DescribeProducersResponseTopicPartition {
	p := kmsg.NewDescribeProducersResponseTopicPartition()
	p.Partition = int32(n)
	part, code := h.find(topic, n)
	if code == 0 {
		list, ok := part.Producers()
		if !ok {
			code = kafka.ErrKafkaStorageError
		}
		for _, e := range list {
			a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			a.ProducerID, a.ProducerEpoch = int64(e.ProducerID), int32(e.Epoch)
			a.LastSequence, a.LastTimestamp = int32(e.LastSequence), int64(e.Timestamp)
			a.CoordinatorEpoch, a.CurrentTxnStartOffset = int32(e.CoordinatorEpoch), int64(e.TxnFirstOffset)
			p.ActiveProducers = append(p.ActiveProducers, a)
		}
	}
	if p.ErrorCode = int16(code); code != 0 {
		why := code.String()
		p.ErrorMessage = &why
	}
	return p
}
