package server

import (
	"slices"
	"strings"
	"testing"

	"moldau/internal/config"
)

// withoutTaker are the settings that Kafka calls dynamic and that nothing here
// takes at run time, by name or beginning of a name, with the reason.
var withoutTaker = map[string]string{
	"background.threads":                             "goroutines are not counted; there is no pool to size",
	"num.io.threads":                                 "a request runs on the goroutine of its connection",
	"num.network.threads":                            "connections have a goroutine each",
	"num.replica.fetchers":                           "data is not copied between brokers yet",
	"leader.replication.throttled.rate":              "data is not copied between brokers yet",
	"follower.replication.throttled.rate":            "data is not copied between brokers yet",
	"replica.alter.log.dirs.io.max.bytes.per.second": "replicas are not moved between directories yet",
	"num.recovery.threads.per.data.dir":              "recovery runs at a start only; it is at least as parallel as there are processors",
	"group.":                                         "of the consumer, share and streams protocols, which do not run yet; groups are described with the values in force",
	"share.coordinator.":                             "share groups do not run yet",
	"errors.deadletterqueue.":                        "share groups do not run yet",
	"transaction.partition.verification.enable":      "there are no transactions yet",
	"remote.": "there is no tiered storage",
	"follower.fetch.last.tiered.offset.enable": "there is no tiered storage",
	"config.providers":                         "names Java classes",
	"metric.reporters":                         "names Java classes",
	"principal.builder.class":                  "names a Java class; a change is refused",
	"sasl.":                                    "there is no SASL yet",
	"ssl.":                                     "there is no TLS yet",
}

// tunedByStore are taken by partition.Store; TestStoreTunes shows it.
var tunedByStore = []string{"producer.id.expiration.ms", "log.segment.delete.delay.ms", "cordoned.log.dirs"}

// takenByCleaner are taken by the cleaner of package partition;
// TestCleanerThreadsFollowTheSettings and TestPaceIsRaisedUnderAPass show it.
var takenByCleaner = []string{
	"log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size",
	"log.cleaner.io.max.bytes.per.second", "log.cleaner.threads",
}

// Every setting that Apache Kafka calls dynamic has a taker, or a reason for
// having none. Fails if a setting is added to the table without either, or keeps
// a reason after it got a taker.
func TestEveryDynamicSetting(t *testing.T) {
	by := map[string]string{}
	claim := func(key, who string) {
		if other := by[key]; other != "" && other != who && !(who == "partitions" && other == "store") {
			t.Errorf("%s is taken by %s and by %s", key, other, who)
		}
		by[key] = who
	}
	for _, key := range tunedByStore {
		claim(key, "store")
	}
	for _, key := range takenByCleaner {
		claim(key, "cleaner")
	}
	for _, k := range config.TopicKeys() {
		if name := config.BrokerNameOf(k.Name); name != "" {
			claim(name, "partitions")
		}
	}
	for _, tk := range takers() {
		for _, key := range tk.keys {
			claim(key, "server")
		}
	}
	used := map[string]bool{}
	for _, k := range slices.Concat(config.BrokerKeys(), config.ThrottleKeys()) {
		if k.Dynamic == config.ReadOnly {
			continue
		}
		reason := ""
		for name := range withoutTaker {
			if k.Name == name || strings.HasSuffix(name, ".") && strings.HasPrefix(k.Name, name) {
				reason = name
			}
		}
		switch {
		case by[k.Name] == "" && reason == "":
			t.Errorf("%s is dynamic, and neither taken by anybody nor excused", k.Name)
		case by[k.Name] == "":
			used[reason] = true
		case reason != "" && !strings.HasSuffix(reason, "."):
			t.Errorf("%s has a taker (%s) and a reason for having none", k.Name, by[k.Name])
		}
		delete(by, k.Name)
	}
	for name := range withoutTaker {
		if !used[name] {
			t.Errorf("the reason for %s is not needed", name)
		}
	}
	for name, who := range by {
		if _, ok := config.BrokerKey(name); !ok {
			t.Errorf("%s takes %s, which is no setting", who, name)
		}
	}
}
