package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/record"
)

// assignReplicasToDirs answers AssignReplicasToDirs: a broker tells in which
// directory each of its replicas is (KIP-858). A replica in a directory that
// is offline leaves ISR and leadership at once.
func (s *step) assignReplicasToDirs(req *kmsg.AssignReplicasToDirsRequest) *kmsg.AssignReplicasToDirsResponse {
	resp := kmsg.NewPtrAssignReplicasToDirsResponse()
	resp.Version = req.Version
	id := kafka.NodeID(req.BrokerID)
	f := s.checkEpoch(id, kafka.BrokerEpoch(req.BrokerEpoch))
	if !s.tip.Version().CanAssignDirectories() {
		f = failure{code: kafka.ErrUnsupportedVersion}
	}
	if f.failed() {
		resp.ErrorCode = int16(f.code)
		return resp
	}
	var records []record.Message
	seen := map[kafka.TopicIDPartition]bool{}
	for _, rd := range req.Directories {
		d := kmsg.NewAssignReplicasToDirsResponseDirectory()
		d.ID = rd.ID
		for _, rt := range rd.Topics {
			t := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			t.TopicID = rt.TopicID
			for _, rp := range rt.Partitions {
				key := kafka.TopicIDPartition{TopicID: rt.TopicID, Partition: kafka.PartitionID(rp.Partition)}
				p := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				p.Partition = rp.Partition
				if seen[key] {
					p.ErrorCode = int16(kafka.ErrInvalidRequest)
				} else {
					seen[key] = true
					m, code := s.assignReplica(id, key, rd.ID)
					if p.ErrorCode = int16(code); m != nil {
						records = append(records, m)
					}
				}
				t.Partitions = append(t.Partitions, p)
			}
			d.Topics = append(d.Topics, t)
		}
		resp.Directories = append(resp.Directories, d)
	}
	s.writeSplit(records)
	return resp
}

func (s *step) assignReplica(id kafka.NodeID, key kafka.TopicIDPartition, dir kafka.DirectoryID) (record.Message, kafka.ErrorCode) {
	t := s.tip.TopicByID(key.TopicID)
	if !t.Exists() {
		return nil, kafka.ErrUnknownTopicID
	}
	p, ok := t.Partition(key.Partition)
	switch {
	case !ok:
		return nil, kafka.ErrUnknownTopicOrPartition
	case !slices.Contains(p.Replicas, id):
		return nil, kafka.ErrNotLeaderForPartition
	}
	online := s.tip.Broker(id).Online(dir)
	c := s.newChange(t, p, func(n kafka.NodeID) bool {
		b := s.tip.Broker(n)
		return b != nil && b.Active() && (n != id || online)
	})
	c.assigned, c.directory = id, dir
	if !online {
		c.isr = without(c.isr, id)
	}
	if m := c.build(); m != nil {
		return m, kafka.NoError
	}
	return nil, kafka.NoError
}
