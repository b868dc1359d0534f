package sim

import (
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/raft"
)

// scenario is a world in which nothing goes wrong but what the test does. All
// checkers watch.
type scenario struct {
	*World
	t *testing.T
}

// newScenario starts a cluster; change adapts it before.
func newScenario(t *testing.T, seed uint64, change func(*swarm)) *scenario {
	s := &scenario{newWorld(Config{Seed: seed, Calm: true}), t}
	s.swarm.controllers, s.swarm.spares, s.swarm.brokers, s.swarm.combined = 3, 0, 0, false
	s.swarm.kraft, s.swarm.level, s.swarm.elr = 1, latestLevel, true
	if change != nil {
		change(&s.swarm)
	}
	s.quiet = true // only the test asks for something
	s.begin()
	s.wait("a leader", func() bool { return s.leader() != nil && s.leader().r.Image().Version() != 0 })
	return s
}

// leader is who leads the newest epoch, if it knows that.
func (s *scenario) leader() *node {
	n := s.node(s.check.leaders.byEpoch[s.check.leaders.last].leader)
	if n == nil || !n.alive || n.r.Core().Role() != raft.Leader {
		return nil
	}
	return n
}

// wait lets time pass until something is reached.
func (s *scenario) wait(what string, reached func() bool) {
	s.t.Helper()
	s.until(5*time.Minute, what, reached)
	s.checked()
}

func (s *scenario) pass(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); s.failed == nil && len(s.queue.heap) > 0 && s.queue.heap[0].at < end; {
		s.step()
	}
	s.now = max(s.now, 0)
	s.checked()
}

func (s *scenario) checked() {
	s.t.Helper()
	if s.failed != nil {
		s.t.Fatal(s.failed)
	}
}

// create asks a node's controller for a topic; the answer comes later.
func (s *scenario) create(n *node, name string) *answer {
	a := &answer{}
	n.do(n.life, func() {
		n.submit(createTopics(name, 1, 1, false), n.r.Arrived(nil), func(got answer) { *a = got; a.node = n })
	})
	return a
}

func (s *scenario) created(name string) {
	s.t.Helper()
	s.wait(name, func() bool {
		l := s.leader()
		if l == nil {
			return false
		}
		if !l.r.Image().TopicByName(name).Exists() {
			s.create(l, name)
			s.step()
			return false
		}
		return true
	})
}

func (s *scenario) others(n *node) (list []*node) {
	for _, o := range s.nodes {
		if o != n {
			list = append(list, o)
		}
	}
	return list
}

// isolate cuts a node off.
func (s *scenario) isolate(n *node) {
	for _, o := range s.others(n) {
		s.net.blocked[link{n.id, o.id}], s.net.blocked[link{o.id, n.id}] = true, true
	}
}

// end checks what must hold of every run.
func (s *scenario) end() {
	s.t.Helper()
	s.quiet = false
	s.settle()
	s.checked()
}

// One voter loses its unsynced records, two were slow, and these three meet.
// Fails with mutant_skip_fsync.
func TestHC002RolledBackVoterAndTwoStaleOnes(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		s := newScenario(t, seed, func(w *swarm) { w.controllers, w.brokers = 5, 1 })
		l := s.leader()
		var slow, fast []*node
		for _, n := range s.controllers() {
			switch {
			case n == l:
			case len(slow) < 2:
				slow = append(slow, n)
			default:
				fast = append(fast, n)
			}
		}
		for _, n := range slow {
			n.paused = true
		}
		for _, name := range []string{"a", "b", "c"} {
			s.created(name)
		}
		fast[0].crash(true)
		l.paused, fast[1].paused = true, true
		slow[0].resume()
		slow[1].resume()
		s.wait("a new leader", func() bool { n := s.leader(); return n != nil && n != l && n.r.Image().TopicByName("c").Exists() })
		s.created("d")
		l.resume()
		fast[1].resume()
		s.end()
	}
}

// A voter that is removed while it cannot hear of it learns of it afterwards
// and follows. Fails if an observer waits for somebody to tell it the leader.
func TestHC011RemovedVoterLearnsOfIt(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers = 1 })
	gone := s.others(s.leader())[0]
	s.isolate(gone)
	s.request(s.leader(), &raft.RemoveVoterRequest{ClusterID: clusterID, Voter: gone.voter().Key})
	s.created("a")
	s.net.heal()
	s.wait("the removed voter", func() bool {
		set, _ := gone.r.Core().VotersAt(gone.r.Core().EndOffset())
		return gone.applied == s.check.prefix.end() && !set.Contains(gone.voter().Key)
	})
	s.end()
}

// After changes of the voters each node starts alone: none may lead. Fails if
// the records of the log are taken before the checkpoint.
func TestHC030NobodyLeadsAlone(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		s := newScenario(t, seed, func(w *swarm) { w.controllers, w.spares, w.brokers = 3, 1, 1 })
		spare := s.nodes[3]
		s.wait("the spare", func() bool { return spare.applied == s.check.prefix.end() })
		s.request(s.leader(), &raft.AddVoterRequest{ClusterID: clusterID, Timeout: time.Second, Voter: spare.voter()})
		s.wait("four voters", func() bool { return s.check.voters.set.Len() == 4 })
		for _, n := range s.nodes {
			n.crash(false)
		}
		last := s.check.leaders.last
		for _, n := range s.controllers() {
			for _, o := range s.nodes {
				if o.alive {
					o.crash(false)
				}
			}
			n.boot()
			s.isolate(n)
			s.pass(200 * time.Millisecond)
			if n.alive && n.r.Core().Role() == raft.Leader || s.check.leaders.last != last {
				t.Fatalf("seed %d: node %d leads alone", seed, n.id)
			}
			s.net.heal()
		}
		s.end()
	}
}

// A voter comes back with an empty disk under a new directory id, joins, and
// the disk that is gone is forgotten. Fails if the id alone made it a voter.
func TestHC031WipedVoterJoinsAnew(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers, w.autoJoin = 1, true })
	s.created("a")
	victim := s.others(s.leader())[0]
	old := victim.voter().Key
	victim.wipe()
	s.wait("the new disk is a voter", func() bool {
		set := s.check.voters.set
		return set.Len() == 3 && set.Contains(victim.voter().Key) && !set.Contains(old)
	})
	s.end()
}

// Two leaderless epochs of one set: the leader removes the other voter of two
// and dies before its record is on its own disk, but after it is on the other's.
// Fails if only voters of the latest set may be elected.
func TestRemovalFromASetOfTwoDoesNotDeadlock(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		s := newScenario(t, seed, func(w *swarm) { w.brokers = 1 })
		l := s.leader()
		rest := s.others(l)
		s.request(l, &raft.RemoveVoterRequest{ClusterID: clusterID, Voter: rest[0].voter().Key})
		s.wait("two voters", func() bool { return s.check.voters.set.Len() == 2 })
		victim := rest[1]
		if seed%2 == 0 {
			victim = l
		}
		s.request(l, &raft.RemoveVoterRequest{ClusterID: clusterID, Voter: victim.voter().Key})
		for range seed % 7 {
			s.step()
		}
		l.crash(true)
		s.end()
	}
}

// An old leader that has appended what it could not commit leads again on a log
// without it. Fails with mutant_skip_revert.
func TestHC040UncommittedTopicIsRevertedEverywhere(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers = 1 })
	s.wait("the broker", s.inService)
	old := s.leader()
	s.isolate(old)
	lost := s.create(old, "lost")
	s.wait("a new leader", func() bool { n := s.leader(); return n != nil && n != old })
	s.created("kept")
	s.net.heal()
	s.wait("the old leader follows", func() bool { return old.applied == s.check.prefix.end() })
	if img := old.r.Image(); img.TopicByName("lost").Exists() || lost.err != errUnknown {
		t.Errorf("outcome %v, and the topic exists: %t", lost.err, img.TopicByName("lost").Exists())
	}
	for _, o := range s.others(old) {
		if o.ctl {
			s.request(s.leader(), &raft.RemoveVoterRequest{ClusterID: clusterID, Voter: o.voter().Key})
			s.pass(2 * time.Second)
		}
	}
	s.wait("the old leader leads", func() bool { return s.leader() == old })
	s.created("again")
	s.end()
}

// The followers are frozen, a topic is created twice, the leader is deposed:
// neither client may have been told anything. Fails with mutant_reply_early.
func TestTrap1NoAnswerFromATipThatIsRolledBack(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers = 1 })
	s.wait("the broker", s.inService)
	old := s.leader()
	s.isolate(old)
	first, second := s.create(old, "t"), s.create(old, "t")
	s.wait("a new leader", func() bool { n := s.leader(); return n != nil && n != old })
	s.wait("the old one resigns", func() bool { return old.r.Core().Role() != raft.Leader })
	for _, a := range []*answer{first, second} {
		if a.err != errUnknown {
			t.Errorf("told %v %v", a.resp, a.err)
		}
	}
	s.net.heal()
	s.end()
}

// Several brokers fall silent at once: no partition keeps a dead leader. Fails
// with mutant_fence_keeps_leader.
func TestHC043BrokersThatExpireTogetherInSimulation(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers = 3 })
	s.wait("the brokers", s.inService)
	for range 10 {
		l := s.leader()
		l.do(l.life, func() { l.submit(createTopics("t", 3, 3, false), l.r.Arrived(nil), func(answer) {}) })
	}
	s.created("t")
	gone := s.nodes[3:5]
	for _, n := range gone {
		n.paused = true
	}
	s.wait("both are fenced", func() bool {
		img := s.leader().r.Image()
		return img.Broker(gone[0].id).Fenced && img.Broker(gone[1].id).Fenced
	})
	img := s.leader().r.Image()
	img.EachTopic(func(topic metadata.Topic) bool {
		topic.Each(func(p metadata.Partition) bool {
			if p.Leader == gone[0].id || p.Leader == gone[1].id {
				t.Errorf("%s-%d is led by %d", topic.Name(), p.ID, p.Leader)
			}
			return true
		})
		return true
	})
	s.end()
}

// The controller stands still for less than a session after its brokers'
// heartbeats have arrived: it fences nobody. Fails if the shell does not note
// heartbeats beside its queue.
func TestHC050StalledControllerFencesNobodyInSimulation(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers = 3 })
	s.wait("the brokers", s.inService)
	fences := s.counts.Fences
	for range 5 {
		l := s.leader()
		l.paused = true
		s.pass(s.swarm.pace * 8 / 10)
		l.resume()
		s.pass(4 * s.swarm.pace)
	}
	if s.counts.Fences != fences {
		t.Errorf("%d brokers were fenced", s.counts.Fences-fences)
	}
	s.end()
}

// The wall clock jumps by a day, both ways, on every node: no election, no
// fence. Fails if sessions or elections take the wall clock.
func TestTrap15WallClockStepsInSimulation(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers = 3 })
	s.wait("the brokers", s.inService)
	elections, fences := s.counts.Elections, s.counts.Fences
	for i, step := range []kafka.WallMs{dayMs, -dayMs, -dayMs, dayMs} {
		for _, n := range s.nodes {
			n.skewMs += step
			s.pass(s.swarm.pace)
		}
		s.created([]string{"a", "b", "c", "d"}[i])
	}
	if s.counts.Elections != elections || s.counts.Fences != fences {
		t.Errorf("%d elections, %d fences", s.counts.Elections-elections, s.counts.Fences-fences)
	}
	s.end()
}

// A voter that was away while the log was trimmed behind snapshots downloads
// one, follows, and keeps its log over two restarts (HC-036, HC-037, HC-039).
func TestHC039LateVoterInSimulation(t *testing.T) {
	s := newScenario(t, 1, func(w *swarm) { w.brokers, w.snapshotBytes, w.retention, w.segmentBytes = 1, 300, 0, 2048 })
	late := s.others(s.leader())[0]
	s.isolate(late)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		s.created(name)
	}
	s.net.heal()
	s.wait("a download", func() bool { return s.counts.SnapshotFetches > 0 && late.applied == s.check.prefix.end() })
	for range 2 {
		late.crash(true)
		s.wait("the late voter", func() bool { return late.alive && late.applied == s.check.prefix.end() })
	}
	s.end()
}
