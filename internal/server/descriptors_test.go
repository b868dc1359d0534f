package server

import "testing"

// However many may be opened, segments and connections together leave some.
func TestDescriptorsAreShared(t *testing.T) {
	for limit, want := range map[int][2]int{
		64: {16, 16}, 256: {64, 64}, 1024: {256, 640}, 20_000: {4096, 15_776}, 1 << 20: {4096, 1<<20 - 4224},
	} {
		if s, c := shareDescriptors(limit); s != want[0] || c != want[1] || s+c >= limit {
			t.Errorf("of %d, segments have %d and connections %d, want %v", limit, s, c, want)
		}
	}
}
