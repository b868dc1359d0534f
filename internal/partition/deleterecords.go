package partition

import (
	"fmt"

	"moldau/internal/kafka"
)

// UpToHighWatermark as the offset of DeleteRecords means all that is committed.
const UpToHighWatermark kafka.Offset = -1

// DeleteRecords moves the log start up to an offset, for good: records below it
// are not read any more, and retention deletes the segments that lie wholly
// below (Partition.deleteRecordsOnLeader). It gives the offset that was meant. As
// in Kafka the new start is durable with the next checkpoint or clean stop: a
// crash before that brings the records back.
func (p *Partition) DeleteRecords(upTo kafka.Offset) (kafka.Offset, kafka.ErrorCode) {
	p.mu.Lock()
	upTo, moved, code := p.deleteRecords(upTo)
	p.mu.Unlock()
	if moved {
		p.watch.wake()
	}
	return upTo, code
}

func (p *Partition) deleteRecords(upTo kafka.Offset) (kafka.Offset, bool, kafka.ErrorCode) {
	log, code := p.writable()
	hw := p.state.HighWatermark()
	if upTo == UpToHighWatermark {
		upTo = hw
	}
	switch {
	case code != 0:
		return kafka.NoOffset, false, code
	case p.Settings().CompactOnly:
		// What compaction keeps, nothing else may delete.
		return kafka.NoOffset, false, kafka.ErrPolicyViolation
	case upTo < 0 || upTo > hw:
		return kafka.NoOffset, false, kafka.ErrOffsetOutOfRange
	case upTo <= log.StartOffset():
		return upTo, false, 0
	}
	if err := log.AdvanceStart(upTo); err != nil {
		p.dir.fail(fmt.Errorf("delete records of %s: %w", p.tp, err))
		return kafka.NoOffset, false, kafka.ErrKafkaStorageError
	}
	p.publish(log)
	p.dir.startMoved.Store(true)
	return upTo, true, 0
}

// LowWatermark is the lowest log start of this replica and of those whose broker
// is alive. Followers reveal theirs by fetching, which comes with replication;
// until one has, it counts as having deleted nothing.
func (p *Partition) LowWatermark(alive func(kafka.NodeID) bool) (kafka.Offset, kafka.ErrorCode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, code := p.writable()
	if code != 0 {
		return kafka.NoOffset, code
	}
	for _, id := range p.state.Assignment().Replicas {
		if id != p.store.opts.Self && alive(id) {
			return kafka.NoOffset, 0
		}
	}
	return log.StartOffset(), 0
}
