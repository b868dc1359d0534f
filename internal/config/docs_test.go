package config

import (
	"slices"
	"strings"
	"testing"
)

// docFiles are the texts, with the keys that may have theirs there.
var docFiles = []struct {
	file, text string
	keys       []Key
}{
	{"broker.txt", brokerDocs, brokerKeys},
	{"topic.txt", topicDocs, topicKeys},
	{"group.txt", groupDocs, groupKeys},
	{"clientmetrics.txt", clientMetricsDocs, clientMetricsKeys},
	{"own.txt", ownDocs, ownKeys},
}

// Would fail if docOf never looked at the first or the last line.
func TestEverySettingIsExplained(t *testing.T) {
	for _, f := range docFiles {
		for i := range f.keys {
			doc := f.keys[i].Doc()
			if len(doc) < 20 || !strings.HasSuffix(doc, ".") {
				t.Errorf("%s: %q does not explain the setting in a sentence", f.keys[i].Name, doc)
			}
		}
	}
	for _, name := range []string{"", "a", "no.such.setting", "zzz"} {
		if doc := (&Key{Name: name}).Doc(); doc != "" {
			t.Errorf("%q is explained as %q", name, doc)
		}
	}
}

// Would fail if a setting were removed from the table and its text stayed.
func TestDocFilesAreInOrder(t *testing.T) {
	const maxLine = 400
	names, texts := map[string]string{}, map[string]string{}
	for _, f := range docFiles {
		previous := ""
		for _, line := range strings.Split(strings.TrimSuffix(f.text, "\n"), "\n") {
			name, doc, ok := strings.Cut(line, "\t")
			if !ok || len(line) > maxLine || strings.TrimSpace(doc) != doc || strings.ContainsAny(doc, "\t\r") {
				t.Errorf("%s: not a name, a tab and a text of one line: %q", f.file, line)
			}
			if name <= previous {
				t.Errorf("%s: %s comes after %s", f.file, name, previous)
			}
			previous = name
			if !slices.ContainsFunc(f.keys, func(k Key) bool { return k.Name == name }) {
				t.Errorf("%s: no such setting: %s", f.file, name)
			}
			if other, ok := names[name]; ok {
				t.Errorf("%s is explained in %s and in %s", name, other, f.file)
			}
			names[name] = f.file
			if other, ok := texts[doc]; ok && BrokerNameOf(name) != other {
				t.Errorf("%s and %s have the same text", other, name)
			}
			texts[doc] = name
		}
	}
}

func BenchmarkDoc(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		for i := range brokerKeys {
			if brokerKeys[i].Doc() == "" {
				b.Fatal(brokerKeys[i].Name)
			}
		}
	}
}
