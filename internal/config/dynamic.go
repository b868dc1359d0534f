package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// throttleKeys are broker settings that can only be set dynamically
// (QuotaConfig.brokerQuotaConfigs), in order of name. As in Kafka they are
// described where they are set.
var throttleKeys = []Key{
	{Name: "follower.replication.throttled.rate", Type: Long, Default: "9223372036854775807", Bounded: true, Max: noLimit, Dynamic: ClusterWide},
	{Name: "leader.replication.throttled.rate", Type: Long, Default: "9223372036854775807", Bounded: true, Max: noLimit, Dynamic: ClusterWide},
	{Name: "replica.alter.log.dirs.io.max.bytes.per.second", Type: Long, Default: "9223372036854775807", Bounded: true, Max: noLimit, Dynamic: ClusterWide},
}

// ThrottleKeys are the settings that can only be set dynamically; see BrokerKeys.
func ThrottleKeys() []Key { return throttleKeys }

// ListenerPrefix begins the settings of one listener: listener.name.<name>.<setting>.
const ListenerPrefix = "listener.name."

// PlainName takes the listener's prefix off a setting's name.
func PlainName(name string) string {
	if rest, ok := strings.CutPrefix(name, ListenerPrefix); ok {
		if _, plain, ok := strings.Cut(rest, "."); ok {
			return plain
		}
	}
	return name
}

// DynamicKey finds a broker setting by the name under which it can be set at run
// time; nil if Kafka does not know it: such names are for plug-ins.
func DynamicKey(name string) *Key {
	name = PlainName(name)
	if k, ok := find(brokerKeys, name); ok {
		return k
	}
	k, _ := find(throttleKeys, name)
	return k
}

// CheckBroker checks all dynamic settings that a broker, or with cluster all
// brokers, would have instead of those of now; l are the layers of this broker as
// they are now (DynamicBrokerConfig.validate).
func CheckBroker(l Layers, now, proposed map[string]string, cluster bool) error {
	if err := CheckDynamicNames(proposed, cluster); err != nil {
		return err
	}
	after := l
	if cluster {
		after.Default = FromMap(proposed)
	} else {
		after.Broker = FromMap(proposed)
	}
	for _, check := range []func(before, after Layers) error{checkLogSettings, checkConnectionSettings, checkGroupSettings, checkThreads, checkCordoned, checkFixed} {
		if err := check(l, after); err != nil {
			return err
		}
	}
	names := sortedNames(proposed)
	for _, name := range sortedNames(now) {
		if _, ok := proposed[name]; !ok {
			names = append(names, name)
		}
	}
	return checkListeners(l, after, names)
}

// CheckDynamicNames tells whether the settings can be set at run time, and at this
// place, to values of their type.
func CheckDynamicNames(proposed map[string]string, cluster bool) error {
	var fixed, bare, own []string
	var values error
	for _, name := range sortedNames(proposed) {
		k := DynamicKey(name)
		if plain := PlainName(name); cluster && plain != name && !ofConnections(plain) {
			own = append(own, name)
			continue
		}
		switch {
		case k == nil:
			continue
		case k.Dynamic == ReadOnly && k.Name == name:
			fixed = append(fixed, name)
		case k.Name == name && perListener(name):
			bare = append(bare, name)
		case k.Dynamic == PerBroker && cluster:
			own = append(own, name)
		}
		if err := k.Check(proposed[name]); err != nil && values == nil {
			values = err
		}
	}
	switch {
	case len(fixed) > 0:
		return fmt.Errorf("Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))
	case len(bare) > 0:
		return fmt.Errorf("These security configs can be dynamically updated only per-listener using the listener prefix: [%s]", strings.Join(bare, ", "))
	case values != nil:
		return values
	case len(own) > 0:
		return fmt.Errorf("Cannot update these configs at default cluster level, broker id must be specified: [%s]", strings.Join(own, ", "))
	}
	return nil
}

// ofConnections tells whether a setting of one listener bounds its connections, or
// sizes their pool (DynamicBrokerConfig.ClusterLevelListenerConfigs).
func ofConnections(plain string) bool {
	return plain == "max.connections" || plain == "max.connection.creation.rate" || plain == "num.network.threads"
}

// perListener tells whether a setting of keys and certificates must name its
// listener (SslConfigs.RECONFIGURABLE_CONFIGS).
func perListener(name string) bool {
	return name == "ssl.key.password" || strings.HasPrefix(name, "ssl.keystore.") || strings.HasPrefix(name, "ssl.truststore.")
}

// number gives a number setting in force, and whether it has a value.
func (l Layers) number(name string) (int64, bool) {
	v, ok := l.BrokerValue(name)
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	return n, ok && err == nil
}

// checkLogSettings: what KafkaConfig demands of values together.
func checkLogSettings(_, l Layers) error {
	if n, ok := l.number("log.roll.ms"); ok && n < 1 {
		return errors.New("log.roll.ms must be greater than or equal to 1")
	}
	if n, ok := l.number("log.roll.jitter.ms"); ok && n < 0 {
		return errors.New("log.roll.jitter.ms must be greater than or equal to 0")
	}
	if n, ok := l.number("log.retention.ms"); ok && n == 0 {
		return errors.New("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
	}
	threads, _ := l.number("log.cleaner.threads")
	if n, _ := l.number("log.cleaner.dedupe.buffer.size"); threads > 0 && n/threads <= 1<<20 {
		return errors.New("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
	}
	for _, q := range []struct{ local, total, topic string }{
		{"log.local.retention.ms", "log.retention.ms", "retention.ms"},
		{"log.local.retention.bytes", "log.retention.bytes", "retention.bytes"},
	} {
		local, _ := l.number(q.local)
		v, _ := l.TopicValue(q.topic)
		total, _ := strconv.ParseInt(v, 10, 64)
		switch {
		case local == -2 || total < 0 && local >= -1: // −2 follows the total
		case local == -1:
			return &InvalidValue{q.local, "-1", fmt.Sprintf("Value must not be -1 as %s value is set as %d.", q.total, total)}
		case local > total && total >= 0:
			return &InvalidValue{q.local, strconv.FormatInt(local, 10), fmt.Sprintf("Value must not be more than %s property value: %d", q.total, total)}
		}
	}
	return nil
}

func checkConnectionSettings(_, l Layers) error {
	text, _ := l.BrokerValue("max.connections.per.ip.overrides")
	overrides, err := ParsePerIPOverrides(text)
	if err != nil {
		return err
	}
	if n, _ := l.number("max.connections.per.ip"); n == 0 && len(overrides) == 0 {
		return errors.New("max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.")
	}
	return nil
}

// ParsePerIPOverrides reads max.connections.per.ip.overrides: host:limit,…
func ParsePerIPOverrides(text string) (map[string]int, error) {
	out := map[string]int{}
	for _, item := range SplitList(text) {
		i := strings.LastIndexByte(item, ':')
		if i < 1 {
			return nil, &InvalidValue{"max.connections.per.ip.overrides", item, "it is not of the form host:limit"}
		}
		n, err := strconv.ParseInt(item[i+1:], 10, 32)
		if err != nil {
			return nil, &InvalidValue{"max.connections.per.ip.overrides", item, "the limit is not a number"}
		}
		out[item[:i]] = int(n)
	}
	return out, nil
}

func checkGroupSettings(_, l Layers) error {
	for _, kind := range []string{"consumer", "share", "streams"} {
		low, high := "group."+kind+".min.assignment.interval.ms", "group."+kind+".max.assignment.interval.ms"
		name := "group." + kind + ".assignment.interval.ms"
		n, _ := l.number(name)
		if m, _ := l.number(low); n < m {
			return fmt.Errorf("%s must be greater than or equal to %s", name, low)
		}
		if m, _ := l.number(high); n > m {
			return fmt.Errorf("%s must be less than or equal to %s", name, high)
		}
	}
	return nil
}

// checkThreads: Kafka resizes a pool by a factor of two at most, and so must
// whoever shares these settings with it.
func checkThreads(before, after Layers) error {
	for _, name := range []string{
		"background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads", "num.recovery.threads.per.data.dir", "num.replica.fetchers",
		"remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size",
		"remote.log.manager.follower.thread.pool.size", "remote.log.reader.threads",
	} {
		was, _ := before.number(name)
		n, _ := after.number(name)
		switch {
		case n == was:
		case n > 2*was:
			return fmt.Errorf("Dynamic thread count update validation failed for %s=%d, value should not be greater than double the current value %d", name, n, was)
		case n < was/2:
			return fmt.Errorf("Dynamic thread count update validation failed for %s=%d, value should be at least half the current value %d", name, n, was)
		}
	}
	return nil
}

// checkCordoned: what is closed to new replicas is one of the log directories.
func checkCordoned(_, l Layers) error {
	cordoned, _ := l.BrokerValue("cordoned.log.dirs")
	dirs, ok := l.BrokerValue("log.dirs")
	if !ok {
		dirs, _ = l.BrokerValue("log.dir")
	}
	for _, dir := range SplitList(cordoned) {
		if dir != "*" && !slices.Contains(SplitList(dirs), dir) {
			return fmt.Errorf("All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : %s", dir)
		}
	}
	return nil
}

// checkFixed refuses what Kafka changes at run time and this version only at a
// start, so that nobody believes it has changed.
func checkFixed(before, after Layers) error {
	const name = "principal.builder.class"
	was, _ := before.BrokerValue(name)
	if v, _ := after.BrokerValue(name); v != was {
		return fmt.Errorf("%s cannot be changed while this server runs; change it in the properties file and start again", name)
	}
	return nil
}
