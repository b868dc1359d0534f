package sim

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
	"moldau/internal/raft"
	"moldau/internal/vfs"
)

// The operator adds and removes voters, has others lead, raises kraft.version, and
// replaces disks, always so that a majority of the voters has a disk.

// scheduleOperator does something to the quorum now and then.
func (w *World) scheduleOperator() {
	w.after(w.between(w.swarm.pace, 8*w.swarm.pace), func() {
		if w.faults {
			w.operate()
			w.scheduleOperator()
		}
	})
}

func (w *World) operate() {
	l := w.leading()
	if l == nil {
		return
	}
	core := l.r.Core()
	voters, kraft := core.VotersAt(core.EndOffset())
	n := pick(w, w.controllers()...)
	if w.rng.IntN(5) == 0 {
		w.request(l, &raft.EndQuorumEpochRequest{
			ClusterID: clusterID, LeaderID: l.id, LeaderEpoch: core.Election().Epoch,
			Successors: []raft.ReplicaKey{{ID: n.id, Dir: n.dir}},
		})
		return
	}
	if kraft == 0 {
		w.upgrade(l)
		return
	}
	v, listed := voters.Find(n.id)
	switch {
	case w.rng.IntN(4) == 0 && w.mayWipe(voters):
		n.wipe()
	case !listed:
		w.request(l, &raft.AddVoterRequest{ClusterID: clusterID, Timeout: 2 * w.swarm.pace, Voter: n.voter(), AckEarly: w.rng.IntN(2) == 0})
	case w.mayRemove(voters, v):
		w.request(l, &raft.RemoveVoterRequest{ClusterID: clusterID, Voter: v.Key})
	}
}

// leading gives a node that believes to lead.
func (w *World) leading() *node {
	var found *node
	for _, n := range w.controllers() {
		if n.alive && !n.paused && n.r.Core().Role() == raft.Leader && (found == nil || w.rng.IntN(2) == 0) {
			found = n
		}
	}
	return found
}

// request gives a leader an operator's request, without a network between.
func (w *World) request(n *node, b raft.Body) {
	w.event("operator", n.id, kafka.NoNode)
	w.note("operator asks %d: %+v", n.id, b)
	n.do(n.life, func() {
		token := n.net.expect(func(b raft.Body) { w.note("operator is told: %+v", b) })
		n.r.Receive(raft.Request{Token: token, Body: b})
	})
}

// upgrade raises kraft.version.
func (w *World) upgrade(n *node) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.SetVersion(1)
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = metadata.FeatureKRaftVersion, 1, 1
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	w.event("operator", n.id, kafka.NoNode)
	n.do(n.life, func() {
		n.submit(req, n.r.Arrived(req), func(a answer) {
			if r, ok := a.resp.(*kmsg.UpdateFeaturesResponse); ok {
				w.note("operator raises kraft.version: error %d", r.ErrorCode)
			}
		})
	})
}

// living counts the voters whose disk is still there.
func (w *World) living(voters raft.VoterSet) (n int) {
	for _, v := range voters.All() {
		if w.node(v.Key.ID).dir == v.Key.Dir {
			n++
		}
	}
	return n
}

// mayRemove: a majority with disks stays.
func (w *World) mayRemove(voters raft.VoterSet, v raft.Voter) bool {
	live := w.living(voters)
	if w.node(v.Key.ID).dir == v.Key.Dir {
		live--
	}
	return voters.Len() > 1 && live >= (voters.Len()-1)/2+1
}

// mayWipe: every controller is up, knows the same voters, and none of them has
// lost a disk.
func (w *World) mayWipe(voters raft.VoterSet) bool {
	if w.swarm.kraft == 0 || voters.Len() < 3 || w.living(voters) < voters.Len() {
		return false
	}
	for _, n := range w.controllers() {
		if !n.alive {
			return false
		}
		core := n.r.Core()
		if set, _ := core.VotersAt(core.EndOffset()); set.String() != voters.String() {
			return false
		}
	}
	return true
}

// wipe replaces the disk of a node by a new one, which bears another directory
// id (HC-031).
func (n *node) wipe() {
	n.crash(true)
	n.w.note("%d has a new disk", n.id)
	n.generation++
	n.dir = kafka.DirectoryID{13: byte(n.generation), 14: 1, 15: byte(n.id)}
	n.newDisk()
	n.formatAs(raft.VoterSet{})
	n.w.check.mono.wiped(n)
	n.w.check.durable.wiped(n)
}

func (n *node) newDisk() {
	n.mem = vfs.NewMem()
	if err := n.mem.MkdirAll("data"); err != nil {
		panic(err)
	}
	if err := n.mem.SyncDir(""); err != nil {
		panic(err)
	}
	n.fault, n.full = vfs.NewFault(n.mem), 0
}

// formatAs does what kafka-storage format does.
func (n *node) formatAs(voters raft.VoterSet) {
	o := quorum.FormatOptions{FS: n.mem, Dir: "data", KRaft: n.w.swarm.kraft, Records: n.w.bootstrapRecords(), Now: wallZero}
	if o.KRaft > 0 {
		o.Voters = voters
	}
	if err := quorum.Format(o); err != nil {
		panic(err)
	}
}

// voter is how the node would be listed.
func (n *node) voter() raft.Voter {
	return raft.Voter{Key: raft.ReplicaKey{ID: n.id, Dir: n.dir}, Endpoints: n.endpoints(), MaxKRaft: 1}
}

func (n *node) endpoints() []kafka.Endpoint {
	if !n.ctl {
		return nil
	}
	return []kafka.Endpoint{{Name: "CONTROLLER", Host: fmt.Sprint("c", n.id), Port: 9093}}
}
