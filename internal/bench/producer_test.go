package bench

import (
	"bytes"
	"compress/flate"
	"strings"
	"testing"
)

func TestProducerOptions(t *testing.T) {
	tests := []struct {
		name   string
		change func(*ProducerOptions)
		want   string // in the error; empty = accepted
	}{
		{"defaults", func(*ProducerOptions) {}, ""},
		{"acks 1 without idempotence", func(o *ProducerOptions) { o.Acks, o.Idempotent, o.InFlight = "1", false, 2 }, ""},
		{"acks 1 with idempotence", func(o *ProducerOptions) { o.Acks = "1" }, "--idempotent=false"},
		{"in flight with idempotence", func(o *ProducerOptions) { o.InFlight = 1 }, "--idempotent=false"},
		{"no flight", func(o *ProducerOptions) { o.Idempotent, o.InFlight = false, 0 }, "at least 1"},
		{"acks", func(o *ProducerOptions) { o.Acks = "2" }, "want 0, 1 or all"},
		{"codec", func(o *ProducerOptions) { o.Compression = "rar" }, "want none, gzip"},
		{"batch", func(o *ProducerOptions) { o.BatchBytes = 0 }, "want 1 B"},
		{"buffer", func(o *ProducerOptions) { o.BufferBytes = 10 }, "a buffer at least as large"},
	}
	for _, tt := range tests {
		o := DefaultProducerOptions()
		tt.change(&o)
		_, err := o.kgo()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestStopSharesRecordsAmongClients(t *testing.T) {
	tests := []struct {
		stop    Stop
		clients int
		want    []int64
	}{
		{Stop{Records: 10}, 3, []int64{4, 3, 3}},
		{Stop{Bytes: 1001}, 1, []int64{11}},
		{Stop{Bytes: 1000, Records: 5}, 2, []int64{3, 2}},
		{Stop{Records: 1}, 2, []int64{1, 0}},
	}
	for _, tt := range tests {
		for i, want := range tt.want {
			if got := tt.stop.records(i, tt.clients, 100); got != want {
				t.Errorf("%+v, client %d of %d: %d records, want %d", tt.stop, i, tt.clients, got, want)
			}
		}
	}
}

func TestPayloadsDiffer(t *testing.T) {
	payloads := NewPayloads(100, 1, 7)
	seen := map[string]bool{}
	for range 10_000 {
		value := payloads.Next()
		if len(value) != 100 || cap(value) != 100 {
			t.Fatalf("a value of %d bytes, capacity %d", len(value), cap(value))
		}
		seen[string(value)] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d different values of 10,000", len(seen))
	}
}

func TestPayloadsCompressAsAsked(t *testing.T) {
	for _, ratio := range []float64{1, 2, 4} {
		payloads := NewPayloads(1000, ratio, 7)
		var out bytes.Buffer
		w, err := flate.NewWriter(&out, flate.DefaultCompression)
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if _, err := w.Write(payloads.Next()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := 1e6 / float64(out.Len()); got < ratio*0.7 || got > ratio*1.3 {
			t.Errorf("ratio %v compresses by %.2f", ratio, got)
		}
	}
}

func BenchmarkPayloads(b *testing.B) {
	payloads := NewPayloads(100, 1, 7)
	b.ReportAllocs()
	for b.Loop() {
		payloads.Next()
	}
}
