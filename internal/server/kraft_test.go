package server_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
)

// finalized is what ApiVersions says of kraft.version: 0 if nothing.
func (n *node) finalizedKRaft() int16 {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	for _, f := range call[*kmsg.ApiVersionsResponse](n.dial(), req, 4).FinalizedFeatures {
		if f.Name == metadata.FeatureKRaftVersion {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// kraft.version goes from 0 to 1 by UpdateFeatures, not by validate-only, not
// back, and stays after a restart. Fails if the effect of the controller does
// not reach the raft core, or if the answer comes before the records.
func TestUpgradeOfKRaftVersion(t *testing.T) {
	port := server.FreePort(t)
	n := start(t, "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:"+fmt.Sprint(port),
		"controller.quorum.bootstrap.servers=", fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", port))
	update := func(level int16, how int8, validate bool) kafka.ErrorCode {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis, req.ValidateOnly = 10_000, validate
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = metadata.FeatureKRaftVersion, level, how
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		r := call[*kmsg.UpdateFeaturesResponse](n.dial(), req, 2)
		if r.ErrorMessage != nil {
			t.Log(*r.ErrorMessage)
		}
		return kafka.ErrorCode(r.ErrorCode)
	}
	if v := n.finalizedKRaft(); v != 0 {
		t.Fatalf("kraft.version %d at first", v)
	}
	if code := update(1, 1, true); code != 0 || n.finalizedKRaft() != 0 {
		t.Errorf("validate only: %s, kraft.version %d", code, n.finalizedKRaft())
	}
	if code := update(2, 1, false); code != kafka.ErrInvalidUpdateVersion {
		t.Errorf("to 2: %s", code)
	}
	if code := update(1, 1, false); code != 0 || n.finalizedKRaft() != 1 {
		t.Fatalf("to 1: %s, kraft.version %d", code, n.finalizedKRaft())
	}
	if code := update(0, 2, false); code != kafka.ErrInvalidUpdateVersion {
		t.Errorf("back to 0: %s", code)
	}
	n.restart()
	if v := n.finalizedKRaft(); v != 1 {
		t.Errorf("kraft.version %d after a restart", v)
	}
}
