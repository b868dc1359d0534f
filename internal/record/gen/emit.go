package main

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// emitter writes the code of one struct.
type emitter struct {
	*bytes.Buffer
	m *message
	s *structure
}

func (e emitter) line(format string, args ...any) { fmt.Fprintf(e, format+"\n", args...) }

func emitMessage(b *bytes.Buffer, m *message) {
	emitStruct(emitter{b, m, &m.structure}, true)
	for _, s := range m.nested {
		emitStruct(emitter{b, m, s}, false)
	}
}

func emitStruct(e emitter, top bool) {
	name := e.s.goName
	if top {
		id := ""
		if e.m.id != none {
			id = fmt.Sprintf(", id %d", e.m.id)
		}
		e.line("// %s is Kafka's %s%s, versions %d to %d.", name, e.m.name, id, e.m.versions.lo, e.m.versions.hi)
	} else {
		e.line("// %s is a part of %s.", name, e.m.goName)
	}
	e.line("type %s struct {", name)
	for _, f := range e.s.fields {
		e.line("%s %s %s", fieldName(f.name), e.goType(f), e.fieldComment(f))
	}
	if e.m.flexible.lo != none {
		e.line("UnknownTags []TaggedField // tagged fields of a later version, kept")
	}
	e.line("}\n")
	if top {
		e.line("// New%s gives a record with the schema's defaults.\nfunc New%s() *%s {", name, name, name)
		e.line("m := &%s{}\nm.setDefaults()\nreturn m\n}\n", name)
		e.line("// Kind gives the name of the schema.\nfunc (m *%s) Kind() string { return %q }\n", name, e.m.name)
		e.line("// Versions gives the lowest and highest version of the schema.")
		e.line("func (m *%s) Versions() (lo, hi int16) { return %d, %d }\n", name, e.m.versions.lo, e.m.versions.hi)
	}
	e.defaults()
	e.isDefault()
	e.writer()
	e.reader()
}

func (e emitter) fieldComment(f field) string {
	var parts []string
	if !f.versions.contains(e.m.versions) {
		parts = append(parts, "since version "+fmt.Sprint(f.versions.lo))
		if f.versions.hi != forever {
			parts[0] = fmt.Sprintf("versions %d to %d", f.versions.lo, f.versions.hi)
		}
	}
	if f.nullable.lo != none {
		parts = append(parts, "nil is null")
	}
	if f.def != "" && f.def != "null" && f.def != "None" {
		parts = append(parts, "default "+f.def)
	}
	if len(parts) == 0 {
		return ""
	}
	return "// " + strings.Join(parts, "; ")
}

// nested finds the struct that a field refers to, or nil for a basic type.
func (e emitter) nested(f field) *structure {
	for _, s := range e.m.nested {
		if s.name == f.typ {
			return s
		}
	}
	return nil
}

// element is the Go type of one element.
func (e emitter) element(f field) string {
	if t := kafkaType(f); t != "" {
		return "kafka." + t
	}
	if s := e.nested(f); s != nil {
		return s.goName
	}
	switch f.typ {
	case "bytes":
		return "[]byte"
	}
	return f.typ
}

func (e emitter) goType(f field) string {
	t := e.element(f)
	switch {
	case f.array:
		return "[]" + t
	case f.nullable.lo != none && f.typ != "bytes":
		return "*" + t
	}
	return t
}

// isNullable tells whether the field can be null in Go. (Where the schema
// restricts that to some versions, those are all versions of the field.)
func isNullable(f field) bool { return f.nullable.lo != none }

func (e emitter) defaults() {
	e.line("func (m *%s) setDefaults() {", e.s.goName)
	for _, f := range e.s.fields {
		if defaultsToEmpty(f) {
			e.line("m.%s = %s{}", fieldName(f.name), strings.Replace(e.goType(f), "*", "&", 1))
		}
		if d := f.def; d != "" && d != "null" && d != "None" && d != "0" && d != "false" {
			e.line("m.%s = %s", fieldName(f.name), d)
		}
	}
	e.line("}\n")
}

// defaultsToEmpty tells whether the default of a nullable array or struct is an
// empty one. (The schema prints a default that was left out as None.)
func defaultsToEmpty(f field) bool { return isNullable(f) && f.def == "None" }

// isDefault writes a method for structs that stand in such a field.
func (e emitter) isDefault() {
	for _, f := range e.m.fields {
		if f.typ != e.s.name || f.array || !defaultsToEmpty(f) {
			continue
		}
		conds := []string{"len(m.UnknownTags) == 0"}
		for _, sub := range e.s.fields {
			conds = append(conds, "!("+e.nonDefault(sub)+")")
		}
		e.line("func (m *%s) isDefault() bool {\nreturn %s\n}\n", e.s.goName, strings.Join(conds, " && "))
	}
}

// nonDefault is a Go condition: the field is not at its default.
func (e emitter) nonDefault(f field) string {
	x := "m." + fieldName(f.name)
	switch {
	case isNullable(f) && f.def == "null":
		return x + " != nil"
	case f.array && defaultsToEmpty(f):
		return x + " == nil || len(" + x + ") > 0"
	case defaultsToEmpty(f):
		return x + " == nil || !" + x + ".isDefault()"
	case f.array, f.typ == "bytes":
		return "len(" + x + ") > 0"
	case isNullable(f):
		return x + " != nil"
	case f.typ == "bool" && f.def == "true":
		return "!" + x
	case f.typ == "bool":
		return x
	case f.typ == "string":
		return x + ` != ""`
	case f.typ == "uuid":
		return x + " != " + "(" + e.element(f) + "{})"
	case f.def != "":
		return x + " != " + f.def
	}
	return x + " != 0"
}

// within is a Go condition for version ∈ v, or "" if that is always so.
func (e emitter) within(v versions) string {
	var parts []string
	if v.lo > e.m.versions.lo {
		parts = append(parts, fmt.Sprintf("version >= %d", v.lo))
	}
	if v.hi < e.m.versions.hi {
		parts = append(parts, fmt.Sprintf("version <= %d", v.hi))
	}
	return strings.Join(parts, " && ")
}

// flex is a Go expression: this version is flexible.
func (e emitter) flex() string {
	switch {
	case e.m.flexible.lo == none:
		return "false"
	case e.m.flexible.lo <= e.m.versions.lo:
		return "true"
	}
	return "flexible"
}

func (e emitter) flexDecl() {
	if e.flex() == "flexible" && e.m.flexible.lo != none {
		e.line("flexible := version >= %d", e.m.flexible.lo)
	}
}

func (e emitter) tagged() []field {
	var out []field
	for _, f := range e.s.fields {
		if f.tag >= 0 {
			out = append(out, f)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].tag < out[j].tag })
	return out
}

// open writes an if for a condition and tells how to close it.
func (e emitter) open(cond string) func() {
	if cond == "" {
		return func() {}
	}
	e.line("if %s {", cond)
	return func() { e.line("}") }
}

// minSize is the smallest encoding of a struct in any version.
func (e emitter) minSize(s *structure) int {
	n := 0
	if e.flex() == "true" {
		n = 1
	}
	for _, f := range s.fields {
		if f.tag >= 0 || !f.versions.contains(e.m.versions) {
			continue
		}
		n += e.minField(f)
	}
	return max(n, 1)
}

func (e emitter) minField(f field) int {
	if f.array || f.typ == "string" || f.typ == "bytes" {
		return 1
	}
	switch f.typ {
	case "bool", "int8":
		return 1
	case "int16", "uint16":
		return 2
	case "int32":
		return 4
	case "int64", "float64":
		return 8
	case "uuid":
		return 16
	}
	if s := e.nested(f); s != nil && !isNullable(f) {
		return e.minSize(s)
	}
	return 1
}
