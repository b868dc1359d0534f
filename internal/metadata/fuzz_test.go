package metadata

import (
	"encoding/binary"
	"errors"
	"math/rand"
	"testing"

	"moldau/internal/record"
)

// FuzzReplay: no sequence of decodable records makes a delta panic, and what
// it accepts is an image like any other: its index is right, and a snapshot of
// it gives it back. Values are preceded by their length in two bytes.
func FuzzReplay(f *testing.F) {
	pack := func(ms []record.Message) (out []byte) {
		for _, m := range ms {
			_, hi := m.Versions()
			v := record.AppendMetadata(nil, m, hi)
			out = append(binary.BigEndian.AppendUint16(out, uint16(len(v))), v...)
		}
		return out
	}
	for seed := range int64(20) {
		g := &generator{rnd: rand.New(rand.NewSource(seed))}
		img := start(f)
		var ms []record.Message
		for range 12 {
			d := NewDelta(img)
			next := g.next(img)
			for _, m := range next {
				if err := d.Replay(m); err != nil {
					f.Fatal(err)
				}
			}
			ms = append(ms, next...)
			img = d.Apply(Provenance{})
		}
		f.Add(pack(ms))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		img := start(t)
		d := NewDelta(img)
		for len(data) >= 2 {
			n := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
			m, _, err := record.DecodeMetadata(data[2 : 2+n])
			data = data[2+n:]
			if err != nil {
				return
			}
			if p, ok := m.(*record.Partition); ok && p.PartitionID > 1000 {
				return // legal, but slow to fuzz
			}
			if d.Replay(m) != nil {
				return
			}
			img = d.Apply(Provenance{})
			d = NewDelta(img)
		}
		checkIndex(t, img)
		h := img.Hash()
		again := NewDelta(Empty())
		err := img.WriteSnapshot(func(m record.Message, v int16) error {
			m2, _, err := record.DecodeMetadata(record.AppendMetadata(nil, m, v))
			if err != nil {
				return err
			}
			return again.Replay(m2)
		})
		if errors.Is(err, ErrUnwritable) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Apply(img.Provenance()); got.Hash() != h && img.CanUseELR() {
			checkSame(t, "snapshot", got, img)
		}
	})
}
