package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/controller"
	"moldau/internal/metadata"
	"moldau/internal/record"
)

// featureStarts says from which metadata.version on a new cluster begins with
// which level of a feature, in the order in which Kafka writes them.
var featureStarts = []struct {
	name   string
	levels []metadata.Version // level i+1 from levels[i] on
}{
	{metadata.FeatureELR, []metadata.Version{26}},
	{metadata.FeatureGroup, []metadata.Version{22}},
	{metadata.FeatureShare, []metadata.Version{28, 31}},
	{metadata.FeatureStreams, []metadata.Version{29}},
	{metadata.FeatureTransaction, []metadata.Version{24, 24}},
}

// ClusterFeatures gives the records with which a cluster begins: the levels of
// release ("" is the newest; "4.0" or "4.0-IV3"), changed by overrides of the
// form name=level.
func ClusterFeatures(release string, overrides []string) ([]controller.VersionedRecord, error) {
	v := metadata.LatestVersion
	if release != "" {
		var ok bool
		if v, ok = findRelease(release); !ok {
			return nil, fmt.Errorf("unknown metadata.version %q; known are %s", release, strings.Join(releases(), ", "))
		}
	}
	set, err := parseFeatures(overrides)
	if err != nil {
		return nil, err
	}
	if level, ok := set[metadata.FeatureMetadataVersion]; ok {
		if release != "" {
			return nil, fmt.Errorf("--release-version and --feature metadata.version say the same thing; give one of them")
		}
		v = metadata.Version(level)
	}
	out := []controller.VersionedRecord{feature(metadata.FeatureMetadataVersion, int16(v))}
	for _, f := range featureStarts {
		level := int16(0)
		for i, from := range f.levels {
			if v >= from {
				level = int16(i + 1)
			}
		}
		if given, ok := set[f.name]; ok {
			level = given
		}
		if f.name == metadata.FeatureELR && level > 0 && !v.CanUseELR() {
			return nil, fmt.Errorf("%s=%d needs metadata.version 4.0-IV1 or later", f.name, level)
		}
		if level > 0 {
			out = append(out, feature(f.name, level))
		}
	}
	return out, nil
}

func feature(name string, level int16) controller.VersionedRecord {
	return controller.VersionedRecord{Message: &record.FeatureLevel{Name: name, FeatureLevel: level}}
}

// findRelease takes the name of a level, or of a release, which stands for its
// last level.
func findRelease(name string) (metadata.Version, bool) {
	for v := metadata.LatestVersion; v >= metadata.MinVersion; v-- {
		if s := v.String(); s == name || strings.HasPrefix(s, name+"-IV") {
			return v, true
		}
	}
	return 0, false
}

func releases() []string {
	var out []string
	for v := metadata.MinVersion; v <= metadata.LatestVersion; v++ {
		out = append(out, v.String())
	}
	return out
}

func parseFeatures(overrides []string) (map[string]int16, error) {
	set := map[string]int16{}
	for _, o := range overrides {
		name, text, ok := strings.Cut(o, "=")
		n, err := strconv.ParseInt(text, 10, 16)
		if !ok || err != nil {
			return nil, fmt.Errorf("--feature %s is not of the form name=level", o)
		}
		i := slices.IndexFunc(Features(), func(f metadata.Feature) bool { return f.Name == name })
		if i < 0 || name == metadata.FeatureKRaftVersion {
			return nil, fmt.Errorf("--feature %s: no such feature", name)
		}
		if f := Features()[i]; int16(n) < f.Min || int16(n) > f.Max {
			return nil, fmt.Errorf("--feature %s: levels from %d to %d are supported", o, f.Min, f.Max)
		}
		set[name] = int16(n)
	}
	return set, nil
}
