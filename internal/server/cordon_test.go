package server_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// KIP-1066 from setting to placement: the broker tells the controller with a
// heartbeat which directories are cordoned. Fails if the heartbeat says nothing.
func TestCordonedDirectoriesReachTheController(t *testing.T) {
	n := start(t, "broker.heartbeat.interval.ms=100")
	c := n.dial()
	until := func(want bool) {
		t.Helper()
		for end := time.Now().Add(patience); n.s.Image().Broker(1).AllCordoned() != want; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("the registration never tells %v", want)
			}
		}
		dirs := call[*kmsg.DescribeLogDirsResponse](c, kmsg.NewPtrDescribeLogDirsRequest(), 5).Dirs
		if len(dirs) != 1 || dirs[0].IsCordoned != want {
			t.Errorf("%+v, want %v", dirs, want)
		}
	}
	until(false)
	c.alter(4, "1", "cordoned.log.dirs", n.dir, 0, 0)
	until(true)
	wantCode(t, "a topic", call[*kmsg.CreateTopicsResponse](c, creation(newTopic("t", 1, 1)), 7).Topics[0].ErrorCode, kafka.ErrInvalidReplicationFactor)
	c.alter(4, "1", "cordoned.log.dirs", "", 1, 0)
	until(false)
	c.create("t", 1)
}
