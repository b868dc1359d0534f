package quorum

import (
	"errors"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// HC-023: a leader leaves ahead of its stop: it takes nothing more, the others
// elect another, and it follows until it is stopped. Fails if Leave does not
// reach the raft core.
func TestHC023LeaderLeavesBeforeItStops(t *testing.T) {
	_, nodes := openThree(t, func(o *Options) { o.Raft.FetchTimeout = 2 * time.Second })
	for _, n := range nodes {
		n.Start()
	}
	var leader *watched
	for _, n := range nodes {
		n.until(t, func(img *metadata.Image) bool { return img.Version() != 0 })
		if n.Leader().Leader != kafka.NoNode {
			leader = nodes[n.Leader().Leader]
		}
	}
	if leader == nil {
		t.Fatal("nobody leads")
	}
	epoch := leader.Leader().Epoch
	leader.Leave()
	refused := make(chan error, 1)
	leader.Submit(Context{}, createTopic("late"), func(_ any, err error) { refused <- err })
	if err := <-refused; !errors.Is(err, ErrNotController) {
		t.Errorf("a leader that has left answers %v", err)
	}
	for _, n := range nodes {
		n.until(t, func(img *metadata.Image) bool { return img.Provenance().Epoch > epoch })
	}
	if l := leader.Leader(); l.Leader == leader.id || l.Epoch <= epoch {
		t.Errorf("still %+v", l)
	}
	for _, n := range nodes {
		(&testQuorum{Quorum: n.Quorum, t: t}).stopNow()
	}
}
