package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// none is the lower bound of a version range that holds nothing.
const none = -1

// forever is the upper bound of an open version range.
const forever = 1 << 15

// versions is a closed range of versions; lo == none means no version.
type versions struct{ lo, hi int }

func (v versions) contains(o versions) bool { return v.lo != none && v.lo <= o.lo && v.hi >= o.hi }

// field is one line of a struct.
type field struct {
	name, typ string // typ without "[]"
	array     bool
	versions  versions
	nullable  versions
	tag       int // -1 when not tagged
	def       string
	ignorable bool
}

// structure is a message or a struct inside one.
type structure struct {
	name   string // as in the schema
	goName string
	fields []field
}

// message is one record with the structs that only it uses.
type message struct {
	structure
	id       int // none when the schema has no id
	versions versions
	flexible versions
	nested   []*structure
}

var (
	headLine   = regexp.MustCompile(`^(\w+)(?:  id (\d+))?  versions (\S+)  flexible (\S+)$`)
	structLine = regexp.MustCompile(`^struct (\w+)  (\S+)$`)
	fieldLine  = regexp.MustCompile(`^(\w+): (\[\])?(\w+)  (\S+)(?:  nullable (\S+))?(?:  tag (\d+) in (\S+))?(?:  default (\S+))?(  ignorable)?$`)
)

// parse reads the whole schema text.
func parse(text string) ([]*message, error) {
	var messages []*message
	var stack []*structure // stack[d] takes the fields at depth d
	var last field
	for n, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		if depth == 0 {
			m, err := parseHead(trimmed)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			messages = append(messages, m)
			stack = []*structure{nil, &m.structure}
			continue
		}
		m := messages[len(messages)-1]
		if s := structLine.FindStringSubmatch(trimmed); s != nil {
			st := &structure{name: s[1]}
			m.nested = append(m.nested, st)
			stack = append(stack[:depth+1], st)
			continue
		}
		if depth == len(stack) { // deeper than before: the last field's type
			st := &structure{name: last.typ}
			m.nested = append(m.nested, st)
			stack = append(stack, st)
		}
		f, err := parseField(trimmed)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		stack = stack[:depth+1]
		stack[depth].fields = append(stack[depth].fields, f)
		last = f
	}
	return messages, nil
}

func parseHead(line string) (*message, error) {
	h := headLine.FindStringSubmatch(line)
	if h == nil {
		return nil, fmt.Errorf("not a record header: %q", line)
	}
	m := &message{structure: structure{name: h[1]}, id: none, versions: parseVersions(h[3]), flexible: parseVersions(h[4])}
	if h[2] != "" {
		m.id, _ = strconv.Atoi(h[2])
	}
	return m, nil
}

func parseField(line string) (field, error) {
	s := fieldLine.FindStringSubmatch(line)
	if s == nil {
		return field{}, fmt.Errorf("not a field: %q", line)
	}
	f := field{
		name: s[1], array: s[2] != "", typ: s[3], versions: parseVersions(s[4]),
		nullable: parseVersions(s[5]), tag: -1, def: s[8], ignorable: s[9] != "",
	}
	if s[6] != "" {
		f.tag, _ = strconv.Atoi(s[6])
		f.versions = parseVersions(s[7])
	}
	return f, nil
}

func parseVersions(s string) versions {
	if s == "" || s == "none" {
		return versions{none, none}
	}
	if from, ok := strings.CutSuffix(s, "+"); ok {
		lo, _ := strconv.Atoi(from)
		return versions{lo, forever}
	}
	from, to, ranged := strings.Cut(s, "-")
	lo, _ := strconv.Atoi(from)
	if !ranged {
		return versions{lo, lo}
	}
	hi, _ := strconv.Atoi(to)
	return versions{lo, hi}
}
