package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CommitOptions say how offsets are committed.
type CommitOptions struct {
	Target Target
	Topic  TopicSpec // whose offsets are committed
	// Groups share the requests; each connection commits for its part of them.
	Groups, Connections int
	// PerRequest is how many partitions a request commits for.
	PerRequest int
	// Window is how many requests a connection has under way.
	Window   int
	Duration time.Duration
}

// DefaultCommitOptions are 100 groups on 20 connections for ten seconds.
func DefaultCommitOptions() CommitOptions {
	return CommitOptions{Topic: TopicSpec{Name: "bench", Partitions: 10}, Groups: 100, Connections: 20, PerRequest: 1, Window: 32, Duration: 10 * time.Second}
}

// commitVersion is a version that old and new servers know.
const commitVersion = 8

// Commits commits offsets for groups in which nobody is, as fast as it goes.
// Records counts the offsets that were acknowledged.
func Commits(ctx context.Context, o CommitOptions) (*Result, error) {
	if o.Groups < 1 || o.Connections < 1 || o.PerRequest < 1 || o.Window < 1 || o.Duration <= 0 {
		return nil, fmt.Errorf("groups, connections, per-request, window and duration must be positive")
	}
	client, err := o.Target.newClient(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if o.Topic.Partitions, err = o.topic(ctx, client); err != nil {
		return nil, err
	}
	where, err := coordinators(ctx, client, groupNames("commits", o.Groups))
	if err != nil {
		return nil, err
	}
	writers := make([]commitWriter, min(o.Connections, o.Groups))
	for i := range writers {
		w := &writers[i]
		w.o, w.latency = &o, NewRecorder()
		for n := i; n < o.Groups; n += len(writers) {
			w.groups = append(w.groups, fmt.Sprintf("commits-%d", n))
		}
		if err := w.begin(ctx, where[w.groups[0]]); err != nil {
			return nil, err
		}
		defer w.conn.Close()
	}
	r := &Result{Test: "commits", Topic: o.Topic.Name, Partitions: o.Topic.Partitions}
	meter, err := startMeter(o.Target.BrokerPID)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(o.Duration)
	var wg sync.WaitGroup
	for i := range writers {
		w := &writers[i]
		wg.Go(func() { w.err = w.run(ctx, end) })
	}
	wg.Wait()
	all := NewRecorder()
	for i := range writers {
		if writers[i].err != nil {
			return nil, writers[i].err
		}
		r.Records += writers[i].done
		all.Add(writers[i].latency)
	}
	r.Ack = all.Percentiles()
	return r, meter.finish(r)
}

// topic finds the topic, or makes it; any that has partitions enough will do.
func (o *CommitOptions) topic(ctx context.Context, client *kgo.Client) (partitions int, err error) {
	have, err := topicPartitions(ctx, client, o.Topic.Name)
	switch {
	case errors.Is(err, errNoTopic):
		o.Topic.Partitions = max(o.Topic.Partitions, o.PerRequest)
		return ensureTopic(ctx, client, o.Topic)
	case err == nil && have < o.PerRequest:
		return 0, fmt.Errorf("topic %q has %d partitions, a request commits for %d; pass another --topic, or --per-request %d", o.Topic.Name, have, o.PerRequest, have)
	}
	return have, err
}

func groupNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + "-" + strconv.Itoa(i)
	}
	return names
}

// coordinators finds the address of each group's coordinator, and waits for those
// that are not there yet.
func coordinators(ctx context.Context, client *kgo.Client, groups []string) (map[string]string, error) {
	where := map[string]string{}
	for _, g := range groups {
		for where[g] == "" {
			q := kmsg.NewPtrFindCoordinatorRequest()
			q.CoordinatorKey, q.CoordinatorKeys = g, []string{g}
			resp, err := q.RequestWith(ctx, client)
			if err != nil {
				return nil, err
			}
			code, host, port := resp.ErrorCode, resp.Host, resp.Port
			if len(resp.Coordinators) > 0 {
				one := resp.Coordinators[0]
				code, host, port = one.ErrorCode, one.Host, one.Port
			}
			switch {
			case code == 0:
				where[g] = net.JoinHostPort(host, strconv.Itoa(int(port)))
			case !kerr.IsRetriable(kerr.ErrorForCode(code)) || !pause(ctx, pollInterval):
				return nil, fmt.Errorf("no coordinator for group %s: %w", g, kerr.ErrorForCode(code))
			}
		}
	}
	return where, nil
}

// commitWriter is one connection.
type commitWriter struct {
	o       *CommitOptions
	groups  []string
	conn    *wireConn
	frames  [][]byte // a request for each group
	latency *Recorder
	done    int64
	err     error
}

// begin connects, and commits once for each group: a coordinator may be loading.
// Groups of other coordinators are committed to as well: they fail the measurement.
func (w *commitWriter) begin(ctx context.Context, addr string) (err error) {
	if w.conn, err = dialWire(ctx, addr, "moldau-bench"); err != nil {
		return err
	}
	w.encode()
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(commitVersion)
	give := time.Now().Add(readyTimeout)
	for _, frame := range w.frames {
		for {
			if _, err := w.conn.Write(frame); err != nil {
				return err
			}
			if err := w.conn.receive(resp); err != nil {
				return err
			}
			code := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
			if code == nil {
				break
			}
			if !kerr.IsRetriable(code) || time.Now().After(give) || !pause(ctx, pollInterval) {
				return fmt.Errorf("a commit is refused: %w", code)
			}
		}
	}
	return nil
}

// run sends commits and reads their answers.
func (w *commitWriter) run(ctx context.Context, end time.Time) error {
	c, frames := w.conn, w.frames
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(commitVersion)
	sent := make([]time.Time, 0, w.o.Window)
	var out []byte
	for n := 0; ; {
		now := time.Now()
		out = out[:0]
		for len(sent) < w.o.Window && now.Before(end) && ctx.Err() == nil {
			out = append(out, frames[n%len(frames)]...)
			sent = append(sent, now)
			n++
		}
		if len(out) > 0 {
			if _, err := c.Write(out); err != nil {
				return err
			}
		}
		if len(sent) == 0 {
			return ctx.Err()
		}
		// All answers that have come are read before more is sent.
		for more := true; more && len(sent) > 0; more = c.in.Buffered() > 0 {
			if err := c.receive(resp); err != nil {
				return err
			}
			if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
				return fmt.Errorf("a commit is refused: %w", kerr.ErrorForCode(code))
			}
			w.latency.Record(time.Since(sent[0]))
			sent = append(sent[:0], sent[1:]...)
			w.done += int64(w.o.PerRequest)
		}
	}
}

// encode makes a request for each group, once.
func (w *commitWriter) encode() {
	for _, g := range w.groups {
		q := kmsg.NewPtrOffsetCommitRequest()
		q.SetVersion(commitVersion)
		q.Group, q.Generation = g, -1
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = w.o.Topic.Name
		for p := range w.o.PerRequest {
			one := kmsg.NewOffsetCommitRequestTopicPartition()
			one.Partition, one.Offset = int32(p), 1000
			t.Partitions = append(t.Partitions, one)
		}
		q.Topics = []kmsg.OffsetCommitRequestTopic{t}
		w.frames = append(w.frames, w.conn.encode(q))
	}
}
