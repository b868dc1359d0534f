package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/lifecycle"
	"moldau/internal/metadata"
)

// asks is what the broker wants the log to say of its partitions: where it
// leads, that it is alone in sync (decision 12); and of every replica in which
// directory it is (KIP-858). It is the shell of lifecycle.Asks: publish feeds it,
// the broker's goroutine has it send.
type asks struct {
	b    *broker
	told atomic.Bool

	mu     sync.Mutex
	alone  lifecycle.Asks[lifecycle.Led]
	placed lifecycle.Asks[kafka.DirectoryID]
}

// follow looks at the partitions that a committed change touched. What has no
// log here yet is looked at by look.
func (a *asks) follow(d *metadata.Delta, img *metadata.Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range d.Topics() {
		for _, n := range c.Partitions {
			p, ok := c.After.Partition(n)
			a.see(img, kafka.TopicIDPartition{TopicID: c.ID(), Partition: n}, &p, ok && !c.Deleted())
		}
	}
}

// look goes over all replicas on this broker.
func (a *asks) look(img *metadata.Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	img.EachPartitionOf(a.b.s.opts.Config.NodeID, func(t metadata.Topic, p metadata.Partition) bool {
		a.see(img, kafka.TopicIDPartition{TopicID: t.ID(), Partition: p.ID}, &p, true)
		return true
	})
}

func (a *asks) see(img *metadata.Image, id kafka.TopicIDPartition, p *metadata.Partition, exists bool) {
	self := a.b.s.opts.Config.NodeID
	if exists && p.Leader == self && slices.ContainsFunc(p.ISR, func(r kafka.NodeID) bool { return r != self }) {
		a.alone.Want(id, lifecycle.Led{LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch})
	} else {
		a.alone.Settled(id)
	}
	here := a.b.s.store.Partition(id.TopicID, id.Partition)
	said, mine := p.Directory(self)
	if exists && mine && here != nil && here.Directory() != said && img.Version().CanAssignDirectories() {
		a.placed.Want(id, here.Directory())
	} else {
		a.placed.Settled(id)
	}
}

func (a *asks) deadline() kafka.Mono {
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(a.alone.Deadline(), a.placed.Deadline())
}

// send asks for what is due. Only a broker in service is listened to.
func (a *asks) send(epoch kafka.BrokerEpoch) {
	now, self := a.b.s.clock(), a.b.s.opts.Config.NodeID
	a.mu.Lock()
	alone, placed := a.alone.Next(now), a.placed.Next(now)
	a.mu.Unlock()
	if len(alone) > 0 {
		if !a.told.Swap(true) {
			a.b.s.log.Warn("this version does not copy data between brokers: where several replicas are assigned, the leader alone is in sync")
		}
		a.ask(aloneRequest(self, epoch, alone), a.alone.Answered)
	}
	if len(placed) > 0 {
		a.ask(placedRequest(self, epoch, placed), a.placed.Answered)
	}
}

func (a *asks) ask(req kmsg.Request, answered func(kafka.Now)) {
	a.b.s.control().own(req, a.b.timeout, func(kmsg.Response, error) {
		a.mu.Lock()
		answered(a.b.s.clock())
		a.mu.Unlock()
		a.b.wake()
	})
}

func aloneRequest(self kafka.NodeID, epoch kafka.BrokerEpoch, due []lifecycle.Asked[lifecycle.Led]) *kmsg.AlterPartitionRequest {
	req := kmsg.NewPtrAlterPartitionRequest()
	req.SetVersion(req.MaxVersion())
	req.BrokerID, req.BrokerEpoch = int32(self), int64(epoch)
	for _, l := range due {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != l.TopicID {
			t := kmsg.NewAlterPartitionRequestTopic()
			t.TopicID = l.TopicID
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = int32(l.Partition), int32(l.Of.LeaderEpoch), l.Of.PartitionEpoch
		p.NewISR = []int32{int32(self)} // v2
		m := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		m.BrokerID, m.BrokerEpoch = int32(self), int64(epoch)
		p.NewEpochISR = append(p.NewEpochISR, m)
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

func placedRequest(self kafka.NodeID, epoch kafka.BrokerEpoch, due []lifecycle.Asked[kafka.DirectoryID]) *kmsg.AssignReplicasToDirsRequest {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = int32(self), int64(epoch)
	for _, l := range due {
		i := slices.IndexFunc(req.Directories, func(d kmsg.AssignReplicasToDirsRequestDirectory) bool { return d.ID == l.Of })
		if i < 0 {
			d := kmsg.NewAssignReplicasToDirsRequestDirectory()
			d.ID = l.Of
			i, req.Directories = len(req.Directories), append(req.Directories, d)
		}
		d := &req.Directories[i]
		if n := len(d.Topics); n == 0 || d.Topics[n-1].TopicID != l.TopicID {
			t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			t.TopicID = l.TopicID
			d.Topics = append(d.Topics, t)
		}
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		p.Partition = int32(l.Partition)
		t := &d.Topics[len(d.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// wake has the broker's goroutine look around.
func (b *broker) wake() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// earlier is the time until the first of two deadlines.
func (b *broker) earlier(x, y kafka.Mono) time.Duration {
	d := min(x, y)
	if d == kafka.Never {
		return time.Hour
	}
	return max(d.Sub(b.s.clock().Mono), 0)
}
