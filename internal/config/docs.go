package config

import (
	_ "embed" // the texts of the settings
	"strings"
)

// The texts, one setting a line: name, tab, text; in order of name.
//
//go:embed docs/broker.txt
var brokerDocs string

//go:embed docs/topic.txt
var topicDocs string

//go:embed docs/group.txt
var groupDocs string

//go:embed docs/clientmetrics.txt
var clientMetricsDocs string

//go:embed docs/own.txt
var ownDocs string

// Doc explains the setting to an operator, in a sentence or two. A setting
// that topics and brokers have under one name has one text, with the broker's.
func (k *Key) Doc() string {
	for _, text := range []string{brokerDocs, topicDocs, groupDocs, clientMetricsDocs, ownDocs} {
		if doc, ok := docOf(text, k.Name); ok {
			return doc
		}
	}
	return ""
}

// docOf finds the line of a name by halving the text.
func docOf(text, name string) (string, bool) {
	for text != "" {
		start := strings.LastIndexByte(text[:len(text)/2], '\n') + 1
		end := len(text)
		if i := strings.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i + 1
		}
		at, doc, _ := strings.Cut(text[start:end], "\t")
		switch {
		case at == name:
			return strings.TrimSuffix(doc, "\n"), true
		case at < name:
			text = text[end:]
		default:
			text = text[:start]
		}
	}
	return "", false
}
