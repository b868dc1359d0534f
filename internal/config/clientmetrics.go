package config

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// clientMetricsKeys are the settings of a client metrics subscription (KIP-714),
// in order of name.
var clientMetricsKeys = []Key{
	{Name: "interval.ms", Type: Int, Default: "300000"},
	{Name: "match", Type: List},
	{Name: "metrics", Type: List},
}

// ClientMetricsKeys are the settings of a subscription; see BrokerKeys.
func ClientMetricsKeys() []Key { return clientMetricsKeys }

// Malformed is a complaint that Kafka answers with INVALID_REQUEST, where others
// are INVALID_CONFIG.
type Malformed struct{ Reason string }

// Error gives the reason.
func (m *Malformed) Error() string { return m.Reason }

// CheckClientMetrics checks all settings that a subscription would have
// (ClientMetricsConfigs.validate).
func CheckClientMetrics(settings map[string]string) error {
	for _, name := range sortedNames(settings) {
		if _, ok := find(clientMetricsKeys, name); !ok {
			return &Malformed{"Unknown client metrics configuration: " + name}
		}
	}
	for _, name := range sortedNames(settings) {
		k, _ := find(clientMetricsKeys, name)
		value := settings[name]
		if err := k.Check(value); err != nil {
			return err
		}
		if k.Type == List && slices.Contains(SplitList(value), "") {
			return fmt.Errorf("Configuration '%s' values must not be empty.", name)
		}
	}
	if v, ok := settings["interval.ms"]; ok {
		if ms, _ := strconv.Atoi(strings.TrimSpace(v)); ms < 100 || ms > 3_600_000 {
			return &Malformed{fmt.Sprintf("Invalid value %s for interval.ms, interval must be between 100 and 3600000 (1 hour)", v)}
		}
	}
	for _, pattern := range SplitList(settings["match"]) {
		if !matchPattern(pattern) {
			return errors.New("Illegal client matching pattern: " + pattern)
		}
	}
	return nil
}

// matchPattern tells whether a pattern names something that a client tells of
// itself, and a regular expression.
func matchPattern(pattern string) bool {
	name, expr, ok := strings.Cut(pattern, "=")
	if expr = strings.TrimSpace(expr); !ok || expr == "" || strings.Contains(expr, "=") {
		return false
	}
	switch strings.TrimSpace(name) {
	case "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port":
		return expression(expr)
	}
	return false
}

// expression tells whether Java would take a regular expression. What only Java
// knows (looking around, possessive repeats, back references) is let through.
func expression(expr string) bool {
	_, err := syntax.Parse(expr, syntax.Perl)
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return true
	}
	switch bad.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatOp, syntax.ErrInvalidRepeatSize, syntax.ErrInvalidNamedCapture, syntax.ErrInvalidUTF8:
		return true
	}
	return false
}

// DescribeClientMetrics lists all settings of a subscription; stored finds those
// that are set. Defaults have no synonyms, as in Kafka.
func DescribeClientMetrics(stored Lookup) []Entry {
	entries := make([]Entry, 0, len(clientMetricsKeys))
	for i := range clientMetricsKeys {
		k := &clientMetricsKeys[i]
		e := Entry{Key: k, Name: k.Name, Value: &k.Default, Source: SourceDefault}
		if v, ok := stored.get(k.Name); ok {
			v = shown(k, v)
			e.Value, e.Source = &v, SourceClientMetrics
			e.Synonyms = []SynonymValue{{k.Name, &v, SourceClientMetrics}}
		}
		entries = append(entries, e)
	}
	return entries
}
