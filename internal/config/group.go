package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// groupSynonym is the broker setting that a group setting falls back to; "" if
// only groups have it.
func groupSynonym(name string) string {
	if name == "streams.assignor.name" {
		return "group.streams.assignors"
	}
	if _, ok := BrokerKey("group." + name); ok {
		return "group." + name
	}
	return ""
}

// GroupValue gives the value of a group setting in force; stored finds the
// group's overrides.
func (l Layers) GroupValue(stored Lookup, name string) (string, bool) {
	if v, ok := stored.get(name); ok {
		return v, true
	}
	if s := groupSynonym(name); s != "" {
		v, ok := l.BrokerValue(s)
		return firstOf(name, v), ok
	}
	k, ok := GroupKey(name)
	if !ok || k.Null {
		return "", false
	}
	return k.Default, true
}

// firstOf makes a list of assignors the one that counts.
func firstOf(name, value string) string {
	if name == "streams.assignor.name" {
		value, _, _ = strings.Cut(value, ",")
	}
	return value
}

// DescribeGroup lists all settings of a group; stored finds its overrides.
func DescribeGroup(stored Lookup, l Layers) []Entry {
	entries := make([]Entry, 0, len(groupKeys))
	for i := range groupKeys {
		k := &groupKeys[i]
		e := Entry{Key: k, Name: k.Name, Source: SourceDefault}
		if v, ok := l.GroupValue(stored, k.Name); ok {
			v = shown(k, v)
			e.Value = &v
		}
		if v, ok := stored.get(k.Name); ok {
			v = shown(k, v)
			e.Synonyms = append(e.Synonyms, SynonymValue{k.Name, &v, SourceGroup})
		}
		if s := groupSynonym(k.Name); s != "" {
			e.Synonyms = append(e.Synonyms, l.synonymValues(s, brokerSynonyms(s), false)...)
		} else if !k.Null {
			e.Synonyms = append(e.Synonyms, SynonymValue{k.Name, &k.Default, SourceDefault})
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// CheckGroup checks all overrides that a group would have: names, values, and
// the limits that the broker settings set for groups (GroupConfig.validate).
func CheckGroup(overrides map[string]string, l Layers) error {
	for _, name := range sortedNames(overrides) {
		k, ok := GroupKey(name)
		if !ok {
			return fmt.Errorf("Unknown group config name: %s", name)
		}
		if err := k.Check(overrides[name]); err != nil {
			return err
		}
	}
	for _, name := range sortedNames(overrides) {
		if err := checkGroupLimit(name, overrides[name], l); err != nil {
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if groupNumber(overrides, l, session) <= groupNumber(overrides, l, heartbeat) {
			return fmt.Errorf("%s must be greater than %s", session, heartbeat)
		}
	}
	return nil
}

func groupNumber(overrides map[string]string, l Layers, name string) int64 {
	v, _ := l.GroupValue(FromMap(overrides), name)
	n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	return n
}

// checkGroupLimit checks one value against the broker's limits for groups.
func checkGroupLimit(name, value string, l Layers) error {
	value = strings.TrimSpace(value)
	switch name {
	case "streams.assignor.name":
		known, _ := l.BrokerValue("group.streams.assignors")
		if !slices.Contains(SplitList(known), value) {
			return fmt.Errorf("%s '%s' is not a registered task assignor. Registered assignors are: [%s].", name, value, known)
		}
	case "streams.rack.aware.assignment.tags":
		tags := SplitList(value)
		slices.Sort(tags)
		if len(slices.Compact(slices.Clone(tags))) < len(tags) {
			return fmt.Errorf("%s must not contain duplicate tag keys.", name)
		}
	case "errors.deadletterqueue.topic.name":
		if strings.HasPrefix(value, "__") {
			return fmt.Errorf("%s: DLQ topic name must not start with '__'", name)
		}
	case "streams.num.standby.replicas":
		return inRange(name, value, "", "group.streams.max.standby.replicas", l)
	default:
		kind, rest, _ := strings.Cut(name, ".")
		return inRange(name, value, "group."+kind+".min."+rest, "group."+kind+".max."+rest, l)
	}
	return nil
}

// inRange checks a number against two broker settings, as far as they exist.
func inRange(name, value, low, high string, l Layers) error {
	lowest, bounded := l.BrokerValue(low)
	highest, ok := l.BrokerValue(high)
	n, err := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil {
		return nil
	}
	from, _ := strconv.ParseInt(lowest, 10, 64)
	to, _ := strconv.ParseInt(highest, 10, 64)
	switch {
	case !bounded && n > to:
		return fmt.Errorf("%s must be less than or equal to %d", name, to)
	case bounded && (n < from || n > to):
		return fmt.Errorf("%s must be in the range %d to %d inclusive.", name, from, to)
	}
	return nil
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
