package main

import "strings"

func (e emitter) writer() {
	e.line("func (m *%s) write(w *writer, version int16) {", e.s.goName)
	e.flexDecl()
	for _, f := range e.s.fields {
		if f.tag >= 0 {
			continue
		}
		cond := e.within(f.versions)
		done := e.open(cond)
		e.writeValue(f)
		if cond != "" && !f.ignorable {
			e.line("} else if %s {\nw.unsupported(%q, version)", e.nonDefault(f), e.s.goName+"."+fieldName(f.name))
		}
		done()
	}
	e.writeTags()
	e.line("}\n")
}

func (e emitter) writeTags() {
	if e.m.flexible.lo == none {
		return
	}
	cond := e.flex()
	if cond == "true" {
		cond = ""
	}
	tags := e.tagged()
	done := e.open(cond)
	e.line("tags := len(m.UnknownTags)")
	for _, f := range tags {
		// A field of a later version only writes when it is allowed to.
		c := e.nonDefault(f)
		e.line("if %s {", c)
		if v := e.within(f.versions); v != "" && !f.ignorable {
			e.line("if !(%s) {\nw.unsupported(%q, version)\n}", v, e.s.goName+"."+fieldName(f.name))
		}
		e.line("tags++\n}")
	}
	e.line("w.uvarint(uint64(tags))")
	if len(tags) == 0 {
		e.line("w.rawTags(m.UnknownTags)")
		done()
		return
	}
	e.line("unknown := m.UnknownTags")
	for _, f := range tags {
		e.line("if %s {\nmark := w.startTag(&unknown, %d)", e.nonDefault(f), f.tag)
		e.writeValue(f)
		e.line("w.endTag(mark)\n}")
	}
	e.line("w.rawTags(unknown)")
	done()
}

// writeValue writes one field, which is in the version.
func (e emitter) writeValue(f field) {
	x, flex := "m."+fieldName(f.name), e.flex()
	null := "false"
	if isNullable(f) {
		null = "true"
	}
	nested := e.nested(f)
	switch {
	case f.array && nested != nil:
		e.line("if w.arrayLen(len(%s), %s == nil && %s, %s) {\nfor i := range %s {\n%s[i].write(w, version)\n}\n}", x, x, null, flex, x, x)
	case f.array:
		e.line("write%ss(w, %s, %s, %s)", title(f.typ), x, null, flex)
	case nested != nil && isNullable(f) && f.tag >= 0:
		// Tagged, its presence is a varint instead of a byte.
		e.line("if w.presence(%s != nil) {\n%s.write(w, version)\n}", x, x)
	case nested != nil && isNullable(f):
		e.line("if %s == nil {\nw.int8(-1)\n} else {\nw.int8(1)\n%s.write(w, version)\n}", x, x)
	case nested != nil:
		e.line("%s.write(w, version)", x)
	case f.typ == "string" && isNullable(f):
		e.line("w.nullString(%s, %s)", x, flex)
	case f.typ == "string":
		e.line("w.string(%s, %s)", x, flex)
	case f.typ == "bytes":
		e.line("w.bytes(%s, %s, %s)", x, null, flex)
	case f.typ == "uuid":
		e.line("w.uuid(%s)", x)
	case kafkaType(f) != "":
		e.line("w.%s(%s(%s))", f.typ, f.typ, x)
	default:
		e.line("w.%s(%s)", f.typ, x)
	}
}

func (e emitter) reader() {
	e.line("func (m *%s) read(r *reader, version int16) {", e.s.goName)
	e.flexDecl()
	for _, f := range e.s.fields {
		if f.tag >= 0 {
			continue
		}
		done := e.open(e.within(f.versions))
		e.readValue(f, "r")
		done()
	}
	e.readTags()
	e.line("}\n")
}

func (e emitter) readTags() {
	if e.m.flexible.lo == none {
		return
	}
	cond := e.flex()
	if cond == "true" {
		cond = ""
	}
	done := e.open(cond)
	tags := e.tagged()
	if len(tags) == 0 {
		e.line("m.UnknownTags = r.allTags()")
		done()
		return
	}
	e.line("for n := r.uvarint(); n > 0 && r.err == nil; n-- {\ntag, body := r.tag()\nswitch tag {")
	for _, f := range tags {
		e.line("case %d:", f.tag)
		if v := e.within(f.versions); v != "" {
			e.line("if !(%s) {\nr.badTag(tag, version)\nreturn\n}", v)
		}
		e.readValue(f, "body")
		e.line("r.endTag(body)")
	}
	e.line("default:\nm.UnknownTags = r.keepTag(m.UnknownTags, tag, body)\n}\n}")
	done()
}

func (e emitter) readValue(f field, r string) {
	x, flex := "m."+fieldName(f.name), e.flex()
	null := "false"
	if isNullable(f) {
		null = "true"
	}
	nested := e.nested(f)
	t := e.element(f)
	switch {
	case f.array && nested != nil:
		e.line("if n := %s.arrayLen(%d, %s, %s); n >= 0 {\n%s = make([]%s, n)\nfor i := range %s {\n%s[i].setDefaults()\n%s[i].read(%s, version)\n}\n} else {\n%s = nil\n}",
			r, e.minSize(nested), null, flex, x, t, x, x, x, r, x)
	case f.array:
		elem := strings.TrimPrefix(t, "[]")
		if f.typ == "string" {
			e.line("%s = readStrings(%s, %s, %s)", x, r, null, flex)
		} else {
			e.line("%s = read%ss[%s](%s, %s, %s)", x, title(f.typ), elem, r, null, flex)
		}
	case nested != nil && isNullable(f):
		present := r + ".int8() >= 0"
		if f.tag >= 0 {
			present = r + ".uvarint() > 0"
		}
		e.line("%s = nil\nif %s {\n%s = &%s{}\n%s.setDefaults()\n%s.read(%s, version)\n}", x, present, x, t, x, x, r)
	case nested != nil:
		e.line("%s.setDefaults()\n%s.read(%s, version)", x, x, r)
	case f.typ == "string" && isNullable(f):
		e.line("%s = %s.nullString(%s)", x, r, flex)
	case f.typ == "string":
		e.line("%s = %s.string(%s)", x, r, flex)
	case f.typ == "bytes":
		e.line("%s = %s.bytes(%s, %s)", x, r, null, flex)
	case f.typ == "uuid":
		e.line("%s = %s(%s.uuid())", x, t, r)
	case kafkaType(f) != "":
		e.line("%s = %s(%s.%s())", x, t, r, f.typ)
	default:
		e.line("%s = %s.%s()", x, r, f.typ)
	}
}

func title(s string) string {
	if s == "uuid" {
		return "UUID"
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
