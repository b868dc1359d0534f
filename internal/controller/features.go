package controller

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// Ways of UpdateFeatures to change a level.
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// updateFeatures answers UpdateFeatures: all updates or none.
func (s *step) updateFeatures(req *kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.Version = req.Version
	proposed := map[string]int16{}
	for _, u := range req.FeatureUpdates {
		proposed[u.Feature] = u.MaxVersionLevel
	}
	var records []record.Message
	var f failure
	for _, u := range req.FeatureUpdates {
		how := u.UpgradeType
		if req.Version == 0 {
			if how = upgrade; u.AllowDowngrade {
				how = safeDowngrade
			}
		}
		var ms []record.Message
		if ms, f = s.updateFeature(u.Feature, u.MaxVersionLevel, how, proposed); f.failed() {
			break
		}
		records = append(records, ms...)
	}
	if len(proposed) != len(req.FeatureUpdates) {
		f = failure{kafka.ErrInvalidRequest, "A feature appears more than once."}
	}
	resp.ErrorCode, resp.ErrorMessage = int16(f.code), f.text()
	if req.Version <= 1 && !f.failed() {
		for _, u := range req.FeatureUpdates {
			r := kmsg.NewUpdateFeaturesResponseResult()
			r.Feature = u.Feature
			resp.Results = append(resp.Results, r)
		}
	}
	switch {
	case f.failed():
		s.out.KRaft = nil
	case req.ValidateOnly:
		if s.out.KRaft != nil {
			s.out.KRaft.ValidateOnly = true
		}
	default:
		s.write(records...)
	}
	return resp
}

func (s *step) updateFeature(name string, level int16, how int8, proposed map[string]int16) ([]record.Message, failure) {
	bad := func(format string, args ...any) ([]record.Message, failure) {
		return nil, failure{kafka.ErrInvalidUpdateVersion, fmt.Sprintf("Invalid update version %d for feature %s. ", level, name) + fmt.Sprintf(format, args...)}
	}
	current := s.tip.FeatureLevel(name)
	if name == metadata.FeatureKRaftVersion {
		current = 0
		if s.opts.KRaftVersion != nil {
			current = s.opts.KRaftVersion()
		}
	}
	switch {
	case how < upgrade || how > unsafeDowngrade:
		return bad("The controller does not support the given upgrade type.")
	case level < 0:
		return bad("A feature version cannot be less than 0.")
	}
	if reason := s.unsupported(name, level); reason != "" {
		return bad("%s", reason)
	}
	switch {
	case level < current && how == upgrade:
		return bad("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && how != upgrade:
		return bad("Can't downgrade to a newer version.")
	}
	if name == metadata.FeatureKRaftVersion {
		switch {
		case level == current:
			return nil, failure{}
		case how != upgrade:
			return bad("Can't downgrade the version of this feature.")
		}
		s.out.KRaft = &KRaftUpgrade{Level: level}
		// A record of ours to wait for, as Kafka's.
		return []record.Message{&record.NoOp{}}, failure{}
	}
	if name == metadata.FeatureMetadataVersion {
		return s.updateVersion(metadata.Version(level), how == unsafeDowngrade)
	}
	if need := requires(name, level); need > 0 {
		have := int16(s.tip.Version())
		if v, ok := proposed[metadata.FeatureMetadataVersion]; ok {
			have = v
		}
		if metadata.Version(have) < need {
			return bad("%s could not be set to %d because it depends on metadata.version level %d", name, level, need)
		}
	}
	var records []record.Message
	if name == metadata.FeatureELR && level > 0 && current == 0 {
		records = s.safeForELR()
	}
	return append(records, &record.FeatureLevel{Name: name, FeatureLevel: level}), failure{}
}

// requires is the metadata.version that a level of a feature depends on.
func requires(name string, level int16) metadata.Version {
	if name == metadata.FeatureELR && level > 0 {
		return 23
	}
	return 0
}

// metadataChanges lists the levels of metadata.version at which records change
// so that going back below them would lose something.
func metadataChanges(v metadata.Version) bool {
	switch v {
	case 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33:
		return true
	}
	return false
}

func (s *step) updateVersion(to metadata.Version, unsafe bool) ([]record.Message, failure) {
	from := s.tip.Version()
	if !to.Known() {
		return nil, failure{kafka.ErrInvalidUpdateVersion, fmt.Sprintf("Invalid metadata.version %d.", to)}
	}
	for v := from; v > to; v-- {
		if !metadataChanges(v) {
			continue
		}
		text := "Refusing to perform the requested downgrade because it might delete metadata information."
		if unsafe {
			text = "Unsafe metadata downgrade is not supported in this version."
		}
		return nil, failure{kafka.ErrInvalidUpdateVersion, fmt.Sprintf("Unsupported metadata.version downgrade from %d to %d. %s", from, to, text)}
	}
	return []record.Message{&record.FeatureLevel{Name: metadata.FeatureMetadataVersion, FeatureLevel: int16(to)}}, failure{}
}

// unsupported tells which node cannot do a level, or "" if all can.
func (s *step) unsupported(name string, level int16) (reason string) {
	check := func(who string, ranges func(string) (metadata.Feature, bool)) {
		f, ok := ranges(name)
		switch {
		case reason != "":
		case !ok && level != 0:
			reason = who + " does not support this feature."
		case ok && (level < f.Min || level > f.Max) && !(level == 0 && name != metadata.FeatureMetadataVersion):
			reason = fmt.Sprintf("%s only supports versions %d-%d", who, f.Min, f.Max)
		}
	}
	check("Local controller "+strconv.Itoa(int(s.opts.NodeID)), func(name string) (metadata.Feature, bool) {
		for _, f := range s.opts.Features {
			if f.Name == name {
				return f, true
			}
		}
		return metadata.Feature{}, false
	})
	s.tip.EachBroker(func(b *metadata.Broker) bool {
		check(fmt.Sprintf("Broker %d", b.ID), b.Feature)
		return reason == ""
	})
	if reason != "" || !s.tip.Version().CanRegisterControllers() {
		return reason
	}
	s.tip.EachController(func(c *record.RegisterController) bool {
		if c.ControllerID != s.opts.NodeID {
			check(fmt.Sprintf("Controller %d", c.ControllerID), func(name string) (metadata.Feature, bool) {
				for _, f := range c.Features {
					if f.Name == name {
						return metadata.Feature{Name: name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion}, true
					}
				}
				return metadata.Feature{}, false
			})
		}
		return reason == ""
	})
	if reason == "" && s.opts.Voters != nil {
		for _, id := range s.opts.Voters() {
			if id != s.opts.NodeID && s.tip.Controller(id) == nil {
				return fmt.Sprintf("controller %d has not registered, and may not support this feature", id)
			}
		}
	}
	return reason
}

// safeForELR makes the minimum ISR a stored setting of the whole cluster, which
// ELR relies on.
func (s *step) safeForELR() []record.Message {
	var out []record.Message
	if _, ok := s.tip.Config(metadata.Resource{Type: metadata.BrokerResource}, configMinInSync); !ok {
		out = append(out, &record.Config{ResourceType: int8(metadata.BrokerResource), Name: configMinInSync,
			Value: ptr(strconv.Itoa(max(s.opts.MinInSyncReplicas, 1)))})
	}
	s.tip.EachConfigured(func(r metadata.Resource, configs []metadata.Config) bool {
		for _, c := range configs {
			if r.Type == metadata.BrokerResource && r.Name != "" && c.Name == configMinInSync {
				out = append(out, &record.Config{ResourceType: int8(r.Type), ResourceName: r.Name, Name: c.Name})
			}
		}
		return true
	})
	return out
}
