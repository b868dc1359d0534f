package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// dialTimeout bounds the first connection, readyTimeout the wait for a new
	// topic's leaders, pollInterval the pause between two looks.
	dialTimeout  = 3 * time.Second
	readyTimeout = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Target says what is measured.
type Target struct {
	// Brokers are bootstrap addresses, host:port.
	Brokers []string
	// BrokerPID is the broker's process on this machine; 0 if unknown.
	BrokerPID int
}

// TopicSpec is a topic that a test writes to.
type TopicSpec struct {
	Name string
	// Partitions is what a new topic gets and an existing one must have; 0 is 1
	// for a new one and anything for an existing one.
	Partitions int
	// ReplicationFactor of a new topic; 0 is 1.
	ReplicationFactor int
	// Recreate deletes the topic first.
	Recreate bool
}

// newClient connects to the target and proves that something speaks Kafka there.
func (t Target) newClient(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	if err := t.dial(ctx); err != nil {
		return nil, err
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(t.Brokers...), kgo.ClientID("moldau-bench"), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.DialTimeout(dialTimeout),
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, err
	}
	ping, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	if err := client.Ping(ping); err != nil {
		client.Close()
		return nil, fmt.Errorf("%s accepts connections but does not answer as Kafka does: %w; "+
			"is this a PLAINTEXT listener for clients?", strings.Join(t.Brokers, ","), err)
	}
	return client, nil
}

// dial checks that at least one bootstrap address accepts a connection.
func (t Target) dial(ctx context.Context) error {
	if len(t.Brokers) == 0 {
		return errors.New("no broker address; pass --brokers host:port")
	}
	var last error
	for _, address := range t.Brokers {
		dialer := net.Dialer{Timeout: dialTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		last = err
	}
	return fmt.Errorf("cannot connect to %s: %w; start a broker there or pass --brokers host:port", strings.Join(t.Brokers, ","), last)
}

// errNoTopic is returned by topicPartitions for a topic that does not exist.
var errNoTopic = errors.New("topic does not exist")

// topicPartitions counts a topic's partitions; an error when it does not exist
// or when a partition has no leader.
func topicPartitions(ctx context.Context, client *kgo.Client, topic string) (int, error) {
	req := kmsg.NewPtrMetadataRequest()
	name := kmsg.NewMetadataRequestTopic()
	name.Topic = &topic
	req.Topics = append(req.Topics, name)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, fmt.Errorf("metadata of topic %q: %w", topic, err)
	}
	if len(resp.Topics) != 1 {
		return 0, fmt.Errorf("metadata of topic %q: the answer has %d topics", topic, len(resp.Topics))
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return 0, errNoTopic
	case err != nil:
		return 0, fmt.Errorf("metadata of topic %q: %w", topic, err)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.Leader < 0 || p.ErrorCode == kerr.LeaderNotAvailable.Code {
			return 0, fmt.Errorf("topic %q: partition %d has no leader", topic, p.Partition)
		}
	}
	return len(resp.Topics[0].Partitions), nil
}

// ensureTopic makes the topic exist as wanted and returns how many partitions it
// has.
func ensureTopic(ctx context.Context, client *kgo.Client, spec TopicSpec) (int, error) {
	have, err := topicPartitions(ctx, client, spec.Name)
	switch {
	case err != nil && !errors.Is(err, errNoTopic):
		return 0, err
	case err == nil && !spec.Recreate:
		if spec.Partitions != 0 && spec.Partitions != have {
			return 0, fmt.Errorf("topic %q has %d partitions, not %d; pass --recreate to delete its data, or another --topic", spec.Name, have, spec.Partitions)
		}
		return have, nil
	case err == nil:
		if err := deleteTopic(ctx, client, spec.Name); err != nil {
			return 0, err
		}
	}
	wait, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := createTopic(wait, client, spec); err != nil {
		return 0, err
	}
	want := max(spec.Partitions, 1)
	for {
		have, err = topicPartitions(wait, client, spec.Name)
		if err == nil && have == want {
			return have, nil
		}
		if !pause(wait, pollInterval) {
			return 0, fmt.Errorf("topic %q was created but is not ready after %v: %d of %d partitions, %v", spec.Name, readyTimeout, have, want, err)
		}
	}
}

// deleteTopic deletes the topic; it may linger for a moment afterwards.
func deleteTopic(ctx context.Context, client *kgo.Client, topic string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = int32(readyTimeout.Milliseconds())
	name := kmsg.NewDeleteTopicsRequestTopic()
	name.Topic = &topic
	req.Topics = append(req.Topics, name)
	req.TopicNames = append(req.TopicNames, topic)
	resp, err := req.RequestWith(ctx, client)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", topic, err)
	}
	return nil
}

// createTopic creates the topic, again while a deleted one of that name is still
// going away.
func createTopic(ctx context.Context, client *kgo.Client, spec TopicSpec) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(readyTimeout.Milliseconds())
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic = spec.Name
	topic.NumPartitions = int32(max(spec.Partitions, 1))
	topic.ReplicationFactor = int16(max(spec.ReplicationFactor, 1))
	req.Topics = append(req.Topics, topic)
	for {
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("create topic %q: %w", spec.Name, err)
		}
		if len(resp.Topics) != 1 {
			return fmt.Errorf("create topic %q: the answer has %d topics", spec.Name, len(resp.Topics))
		}
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || !pause(ctx, pollInterval) {
			if text := resp.Topics[0].ErrorMessage; text != nil {
				return fmt.Errorf("create topic %q: %w (%s)", spec.Name, err, *text)
			}
			return fmt.Errorf("create topic %q: %w", spec.Name, err)
		}
	}
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
