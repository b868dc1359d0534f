package partition

import (
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// A client asks for a timestamp in a batch that another one has stored: a small
// one that expands to much, or, from a server that did not look, one that cannot be
// read. That is answered, or refused, and nothing goes offline. Fails if
// searchBatch bounds what a batch expands to, or readError takes ErrCorrupt for the
// disk's error.
func TestTimestampsInOddBatches(t *testing.T) {
	r := newRig(t).mustOpen()
	p := r.part(r.topic("t", []int{0}), 0)
	bl := batch.NewBuilder(nil, 0, 0)
	bl.Codec = batch.Zstd
	big := make([]byte, 10<<20)
	for i := range 7 {
		bl.Add(testStart+kafka.WallMs(i), nil, big)
	}
	r.append(p, bl.Finish())
	odd := batchOf(testStart+100, "not gzip")
	odd[22] = byte(batch.Gzip)
	odd.SetMaxTimestamp(true, testStart+100)
	r.append(p, odd)
	if got := p.ListOffset(int64(testStart)+6, kafka.NoEpoch, false); got.Code != 0 || got.Offset != 6 || got.Timestamp != testStart+6 {
		t.Errorf("%+v", got)
	}
	if got := p.ListOffset(int64(testStart)+50, kafka.NoEpoch, false); got.Code != kafka.ErrCorruptMessage || p.dir.failed.Load() || p.broken != nil {
		t.Errorf("%+v, directory failed %v, broken %v", got, p.dir.failed.Load(), p.broken)
	}
	wantValues(t, r.part(r.topic("other", []int{0}), 0), 0)
}
