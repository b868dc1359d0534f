package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/vfs"
)

// The whole node loses power under load, on a disk in memory that tears what
// was not synced: every acknowledged topic is there, and every acknowledged
// batch of a topic with flush.messages=1; other topics keep a prefix. Fails if
// quorum or partition answers before the fsync.
func TestPowerLossOfAWholeNode(t *testing.T) {
	for seed := range uint64(12) {
		nodeLosesPower(t, seed)
	}
}

func nodeLosesPower(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/data"))
	must(t, mem.SyncDir("/"))
	fsys := vfs.NewFault(mem)
	n := startIn(t, fsys, "/data")
	c := n.dial()
	c.create("safe", 1, "flush.messages=1")
	c.create("loose", 1)
	syncs := mem.Syncs().Files
	var mu sync.Mutex
	left := 30 + rnd.IntN(400)
	dead := make(chan struct{})
	fsys.SetHook(func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind&vfs.OpMutate == 0 {
			return nil
		}
		if left--; left == 0 {
			close(dead)
		}
		if left <= 0 {
			return fmt.Errorf("power is off")
		}
		return nil
	})
	var acked [2][]string
	var topics []string
	var wg sync.WaitGroup
	for i, topic := range []string{"safe", "loose"} {
		conn := n.dial()
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := 0; ; j++ {
				v := fmt.Sprint(j)
				req := produceRequest(topic, -1, batchOf(v))
				conn.send(req, 9)
				buf, err := conn.frame()
				if err != nil {
					return
				}
				resp := kmsg.NewPtrProduceResponse()
				resp.SetVersion(9)
				if resp.ReadFrom(buf[5:]) != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
					return
				}
				acked[i] = append(acked[i], v)
				select {
				case <-dead:
					return
				default:
				}
			}
		}()
	}
	admin := n.dial()
	wg.Add(1)
	go func() {
		defer wg.Done()
		for j := range 1000 {
			name := fmt.Sprint("t", j)
			admin.send(creation(newTopic(name, 1, 1)), 4)
			buf, err := admin.frame()
			if err != nil {
				return
			}
			resp := kmsg.NewPtrCreateTopicsResponse()
			resp.SetVersion(4)
			if resp.ReadFrom(buf[4:]) != nil || resp.Topics[0].ErrorCode != 0 {
				return
			}
			topics = append(topics, name)
		}
	}()
	select {
	case <-dead:
	case <-time.After(patience):
		t.Fatal("the load does not reach the disk")
	}
	mem.CrashPower(rnd) // before the stop: what follows writes to a dead disk
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = n.s.Stop(ctx) // only to end its goroutines
	n.s = nil
	wg.Wait()
	if mem.Syncs().Files == syncs && len(acked[0]) > 0 {
		t.Fatal("acknowledged without an fsync")
	}
	again := startIn(t, mem, "/data")
	c = again.dial()
	for _, name := range topics {
		if !again.s.Image().TopicByName(name).Exists() {
			t.Fatalf("seed %d: topic %s was acknowledged and is lost", seed, name)
		}
	}
	var got []string
	for offset := int64(0); ; {
		p := c.fetch("safe", offset)
		more := valuesOf(t, p.RecordBatches)
		if p.ErrorCode != 0 || len(more) == 0 {
			break
		}
		got, offset = append(got, more...), offset+int64(len(more))
	}
	if len(got) < len(acked[0]) || !slices.Equal(got[:len(acked[0])], acked[0]) {
		t.Fatalf("seed %d: %d batches acknowledged, %d are left\n%s", seed, len(acked[0]), len(got), again.log)
	}
	loose := valuesOf(t, c.fetch("loose", 0).RecordBatches)
	for i, v := range loose {
		if v != fmt.Sprint(i) {
			t.Fatalf("seed %d: %v is no prefix", seed, loose)
		}
	}
	c.mustProduce("safe", batchOf("after"))
	c.mustProduce("loose", batchOf("after"))
}
