package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// atLevel is a cluster whose bootstrap records set a level of metadata.version.
func atLevel(t *testing.T, v metadata.Version) *harness {
	h := newHarness(t, false)
	h.quiet = true
	h.core.opts.Bootstrap = []VersionedRecord{{&record.FeatureLevel{Name: metadata.FeatureMetadataVersion, FeatureLevel: int16(v)}, 0}}
	h.step(BecameLeader{Epoch: 1})
	if h.tip.Version() != v || h.tip.InTransaction() {
		t.Fatalf("level %d after the bootstrap at %d", h.tip.Version(), v)
	}
	return h
}

func (h *harness) update(feature string, level int16, how int8) kafka.ErrorCode {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version = 2
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = feature, level, how
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	return kafka.ErrorCode(h.step(Request{Body: req})[0].Body.(*kmsg.UpdateFeaturesResponse).ErrorCode)
}

// live does everything that writes records which depend on the level.
func (h *harness) live(round int) {
	h.run("register id=1 dirs=2", "register id=2", "register id=3 rack=a", "heartbeat id=1", "heartbeat id=2", "heartbeat id=3",
		"heartbeat id=1 offline=10", "heartbeat id=2 shutdown")
	h.step(Request{Body: createTopics(4, 3, fmt.Sprint("t", round))})
	c := kmsg.NewPtrControllerRegistrationRequest()
	c.ControllerID, c.IncarnationID = 9, [16]byte{9, byte(round)}
	f := kmsg.NewControllerRegistrationRequestFeature()
	f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = metadata.FeatureMetadataVersion, 7, 33
	c.Features = append(c.Features, f)
	h.step(Request{Body: c})
	h.advance(10 * time.Second) // all are fenced
	h.run(fmt.Sprintf("register id=3 rack=a inc=%d", round+2), "heartbeat id=3", `UnregisterBroker 0 {"BrokerID":2}`,
		`UnregisterController 0 {"ControllerID":9}`,
		fmt.Sprintf(`DeleteTopics 5 {"TopicNames":["t%d"]}`, round), `AllocateProducerIDs 0 {"BrokerID":3,"BrokerEpoch":1}`)
	h.run("register id=2", "heartbeat id=2")
	if h.tip.Broker(3).Fenced || h.tip.Broker(2).Fenced || h.tip.TopicByName(fmt.Sprint("t", round)).Exists() {
		h.t.Fatalf("%s: the operations did not take effect", h.tip.Version())
	}
}

// At every production level a cluster starts and lives on records that the
// level knows, each level can be raised to every later one, and what replays
// makes a snapshot of that level. The harness fails on a record version that
// cannot carry its record. Fails if a record is written before its level.
func TestEveryLevel(t *testing.T) {
	for v := metadata.MinVersion; v <= metadata.LatestVersion; v++ {
		h := atLevel(t, v)
		h.live(0)
		for _, up := range []metadata.Version{v, v + 1, (v + metadata.LatestVersion + 1) / 2, metadata.LatestVersion} {
			if up < h.tip.Version() || up > metadata.LatestVersion {
				continue
			}
			if code := h.update(metadata.FeatureMetadataVersion, int16(up), upgrade); code != 0 {
				t.Fatalf("%s to %s: %s", h.tip.Version(), up, code)
			}
			h.live(int(up))
			if err := h.tip.WriteSnapshot(func(m record.Message, version int16) error { record.AppendMetadata(nil, m, version); return nil }); err != nil {
				t.Fatalf("%s: %v", up, err)
			}
		}
		h.commit()
		checkReplay(t, h)
	}
}

// A level goes down only where no level between has changed the metadata, and
// only if a downgrade was asked for (FeatureControlManager). Fails if either
// rule is dropped.
func TestDowngrades(t *testing.T) {
	for from := metadata.MinVersion; from <= metadata.LatestVersion; from++ {
		for to := metadata.MinVersion; to < from; to++ {
			safe := true
			for v := to + 1; v <= from; v++ {
				safe = safe && !metadataChanges(v)
			}
			h := atLevel(t, from)
			if code := h.update(metadata.FeatureMetadataVersion, int16(to), upgrade); code != kafka.ErrInvalidUpdateVersion {
				t.Errorf("%s to %s as an upgrade: %s", from, to, code)
			}
			for _, how := range []int8{unsafeDowngrade, safeDowngrade} {
				want := kafka.ErrInvalidUpdateVersion
				if safe {
					want = kafka.NoError
				}
				if code := h.update(metadata.FeatureMetadataVersion, int16(to), how); code != want {
					t.Errorf("%s to %s, way %d: %s, want %s", from, to, how, code, want)
				}
				if safe {
					break
				}
			}
		}
	}
}

// A level must be known to every broker and every controller, voters that have
// not registered included. Fails if any of them is left out.
func TestFeaturesAskEveryNode(t *testing.T) {
	h := atLevel(t, 20)
	voters := []kafka.NodeID{9}
	h.core.opts.Voters = func() []kafka.NodeID { return voters }
	set := func(level int16) kafka.ErrorCode { return h.update(metadata.FeatureMetadataVersion, level, upgrade) }
	h.run("register id=1 mv=21")
	if code := set(22); code != kafka.ErrInvalidUpdateVersion {
		t.Errorf("a broker knows 21 only: %s", code)
	}
	if code := set(21); code != 0 {
		t.Errorf("all know 21: %s", code)
	}
	h.run(`UnregisterBroker 0 {"BrokerID":1}`)
	voters = []kafka.NodeID{9, 10}
	if code := set(22); code != kafka.ErrInvalidUpdateVersion {
		t.Errorf("voter 10 has not registered: %s", code)
	}
	c := kmsg.NewPtrControllerRegistrationRequest()
	c.ControllerID = 10
	f := kmsg.NewControllerRegistrationRequestFeature()
	f.Name, f.MinSupportedVersion, f.MaxSupportedVersion = metadata.FeatureMetadataVersion, 7, 22
	c.Features = append(c.Features, f)
	h.step(Request{Body: c})
	if code := set(23); code != kafka.ErrInvalidUpdateVersion {
		t.Errorf("controller 10 knows 22 only: %s", code)
	}
	if code := set(22); code != 0 {
		t.Errorf("all know 22: %s", code)
	}
}

// kraft.version is checked here and changed by the quorum. Fails if the effect is
// missing, or comes with what may not be done.
func TestKRaftVersionIsAnEffect(t *testing.T) {
	h := quietHarness(t, false)
	level := int16(0)
	h.core.opts.KRaftVersion = func() int16 { return level }
	h.core.opts.Features = append(h.core.opts.Features, metadata.Feature{Name: metadata.FeatureKRaftVersion, Max: 1})
	ask := func(to int16, how int8, validate bool) (*Effects, kafka.ErrorCode) {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version, req.ValidateOnly = 2, validate
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = metadata.FeatureKRaftVersion, to, how
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		var out Effects
		h.core.Step(h.now, Request{Body: req}, h.tip, h.next(), &out)
		return &out, kafka.ErrorCode(out.Replies[0].Body.(*kmsg.UpdateFeaturesResponse).ErrorCode)
	}
	if out, code := ask(1, upgrade, false); code != 0 || out.KRaft == nil || *out.KRaft != (KRaftUpgrade{Level: 1}) || len(out.Batches) != 1 {
		t.Errorf("upgrade: %s, %+v", code, out)
	}
	if out, code := ask(1, upgrade, true); code != 0 || out.KRaft == nil || !out.KRaft.ValidateOnly || len(out.Batches) != 0 {
		t.Errorf("validate only: %s, %+v", code, out)
	}
	if out, code := ask(2, upgrade, false); code != kafka.ErrInvalidUpdateVersion || out.KRaft != nil {
		t.Errorf("unknown level: %s", code)
	}
	level = 1
	if out, code := ask(1, upgrade, false); code != 0 || out.KRaft != nil {
		t.Errorf("nothing to do: %s", code)
	}
	if out, code := ask(0, safeDowngrade, false); code != kafka.ErrInvalidUpdateVersion || out.KRaft != nil {
		t.Errorf("downgrade: %s", code)
	}
}
