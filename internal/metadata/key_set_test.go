package metadata

import (
	"maps"
	"math/rand"
	"slices"
	"testing"
)

// A keySet holds what a map holds, in order, and its forks leave it alone.
// Fails if piece does not copy, or add splits at the wrong place.
func TestKeySet(t *testing.T) {
	type version struct {
		set   keySet
		model map[uint64]bool
	}
	check := func(v version) {
		t.Helper()
		var got []uint64
		v.set.each(func(k uint64) bool { got = append(got, k); return true })
		if want := slices.Sorted(maps.Keys(v.model)); !slices.Equal(got, want) || v.set.n != len(want) {
			t.Fatalf("%d keys, count %d, want %d", len(got), v.set.n, len(want))
		}
	}
	for seed := range int64(20) {
		rnd := rand.New(rand.NewSource(seed))
		span := []int{100, 3000, 100000}[rnd.Intn(3)]
		rising := rnd.Intn(2) == 0
		cur := version{model: map[uint64]bool{}}
		var old []version
		for i := range 6000 {
			if i%500 == 0 {
				old = append(old, version{cur.set, maps.Clone(cur.model)})
				cur.set = cur.set.fork()
			}
			k := uint64(rnd.Intn(span))
			if rising && rnd.Intn(10) > 0 {
				k = uint64(i)
			}
			if rnd.Intn(3) == 0 {
				cur.set.remove(k)
				delete(cur.model, k)
			} else {
				cur.set.add(k)
				cur.model[k] = true
			}
		}
		check(cur)
		for _, v := range old {
			check(v)
		}
		for k := range cur.model {
			cur.set.remove(k)
		}
		if cur.set.n != 0 || len(cur.set.pieces) != 0 {
			t.Fatalf("not empty: %+v", cur.set)
		}
	}
}
