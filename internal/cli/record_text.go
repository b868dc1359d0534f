package cli

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"

	"moldau/internal/record"
)

// recordText prints a record as its kind and the fields that differ from what
// the schema gives them by default. It takes any record, odd ones too (HC-045).
func recordText(m record.Message) string {
	var b strings.Builder
	b.WriteString(m.Kind())
	writeFields(&b, reflect.ValueOf(m).Elem(), reflect.ValueOf(record.Defaults(m)).Elem())
	return b.String()
}

func writeFields(b *strings.Builder, v, defaults reflect.Value) {
	b.WriteString(" {")
	first := true
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || reflect.DeepEqual(v.Field(i).Interface(), defaults.Field(i).Interface()) {
			continue
		}
		if !first {
			b.WriteByte(' ')
		}
		first = false
		b.WriteString(f.Name + "=")
		writeValue(b, v.Field(i))
	}
	b.WriteByte('}')
}

func writeValue(b *strings.Builder, v reflect.Value) {
	if s, ok := v.Interface().(fmt.Stringer); ok && v.Kind() != reflect.Pointer {
		b.WriteString(s.String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("null")
			return
		}
		writeValue(b, v.Elem())
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	case reflect.Struct:
		writeFields(b, v, reflect.Zero(v.Type()))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b.WriteString("0x" + hex.EncodeToString(v.Bytes()))
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(' ')
			}
			writeValue(b, v.Index(i))
		}
		b.WriteByte(']')
	default:
		fmt.Fprint(b, v.Interface())
	}
}
