package handler

import (
	"fmt"
	"math"
	"reflect"

	"moldau/internal/wire"
)

// maxString is the longest string of Kafka's protocol, in every version; records
// of the logs have room for no more.
const maxString = math.MaxInt16

// checkStrings refuses a request with a longer string, which Kafka's decoders do
// not read either. A body that is not longer itself has none, so that few
// requests are looked through.
func checkStrings(body []byte, req any) error {
	if len(body) <= maxString {
		return nil
	}
	if n := longestString(reflect.ValueOf(req)); n > maxString {
		return fmt.Errorf("%w: a string of %d bytes", wire.ErrMalformed, n)
	}
	return nil
}

func longestString(v reflect.Value) (longest int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		return longestString(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				longest = max(longest, longestString(v.Field(i)))
			}
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Pointer, reflect.Struct, reflect.Slice:
			for i := range v.Len() {
				longest = max(longest, longestString(v.Index(i)))
			}
		}
	}
	return longest
}
