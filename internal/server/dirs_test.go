package server_test

import (
	"errors"
	"strings"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/vfs"
)

// A broker with two directories tells in which of them each replica is, and that
// one has failed: then nobody leads what was there, and the rest goes on. Fails
// if the broker does not ask for the assignment, or if its heartbeats do not
// name the failed directory.
func TestDirectoriesOfReplicasAreTold(t *testing.T) {
	dir := t.TempDir()
	fsys := vfs.NewFault(vfs.OS{})
	n := startIn(t, fsys, dir, "log.dirs="+dir+"/a,"+dir+"/b", "broker.heartbeat.interval.ms=100")
	c := n.dial()
	c.create("t", 6)
	where := map[kafka.DirectoryID][]kafka.PartitionID{}
	n.until("the metadata says where each replica is", func(img *metadata.Image) bool {
		clear(where)
		img.TopicByName("t").Each(func(p metadata.Partition) bool {
			d, _ := p.Directory(1)
			where[d] = append(where[d], p.ID)
			return true
		})
		return len(where[kafka.DirectoryUnassigned]) == 0 && len(where) == 2
	})
	fsys.SetHook(func(op vfs.Op) error {
		if op.Kind&vfs.OpMutate != 0 && strings.HasPrefix(op.Name, dir+"/b/") {
			return errors.New("the disk is gone")
		}
		return nil
	})
	p := produceRequest("t", -1, batchOf("x"))
	for i := range int32(6) { // some of them are in b
		p.Topics[0].Partitions[0].Partition = i
		c.receive(p, c.send(p, 9))
	}
	n.until("nobody leads what was in the failed directory", func(img *metadata.Image) bool {
		led := map[kafka.DirectoryID]int{}
		img.TopicByName("t").Each(func(p metadata.Partition) bool {
			if d, _ := p.Directory(1); p.Leader == 1 {
				led[d]++
			}
			return true
		})
		return len(led) == 1 && len(img.Broker(1).Directories) == 1
	})
	fsys.Heal()
	fsys.SetHook(nil)
}
