package metadata

import "slices"

// pieceKeys is how many keys a piece of a keySet holds at most.
const pieceKeys = 512

// keySet is a set of integers in order, in pieces. Sets of several images share
// pieces: a piece that is not owned is copied before it changes. Keys that come
// in rising order, as in a snapshot, fill the pieces. The zero value is empty.
type keySet struct {
	pieces [][]uint64
	own    []bool // by piece; nil: not even pieces is owned
	n      int
}

// fork gives a set that can be changed; s must not be changed any more.
func (s keySet) fork() keySet {
	s.own = nil
	return s
}

// find gives the piece in which k is or would be.
func (s *keySet) find(k uint64) int {
	i, _ := slices.BinarySearchFunc(s.pieces, k, func(p []uint64, k uint64) int {
		if p[len(p)-1] < k {
			return -1
		}
		return 1
	})
	return min(i, len(s.pieces)-1)
}

// piece gives a piece that may be changed.
func (s *keySet) piece(i int) *[]uint64 {
	if s.own == nil {
		s.pieces, s.own = slices.Clone(s.pieces), make([]bool, len(s.pieces))
	}
	if !s.own[i] {
		c := make([]uint64, len(s.pieces[i]), pieceKeys)
		copy(c, s.pieces[i])
		s.pieces[i], s.own[i] = c, true
	}
	return &s.pieces[i]
}

func (s *keySet) insertPiece(i int, p []uint64) {
	if s.own == nil {
		s.pieces, s.own = slices.Clone(s.pieces), make([]bool, len(s.pieces))
	}
	s.pieces, s.own = slices.Insert(s.pieces, i, p), slices.Insert(s.own, i, true)
}

func (s *keySet) add(k uint64) {
	if last := len(s.pieces) - 1; last >= 0 && s.own != nil && s.own[last] {
		if p := s.pieces[last]; len(p) < pieceKeys && p[len(p)-1] < k { // in rising order
			s.pieces[last] = append(p, k)
			s.n++
			return
		}
	}
	i := s.find(k)
	if i < 0 {
		s.insertPiece(0, append(make([]uint64, 0, 8), k))
		s.n++
		return
	}
	at, there := slices.BinarySearch(s.pieces[i], k)
	if there {
		return
	}
	s.n++
	if len(s.pieces[i]) == pieceKeys {
		if at == pieceKeys && i == len(s.pieces)-1 {
			s.insertPiece(i+1, append(make([]uint64, 0, pieceKeys), k))
			return
		}
		p := *s.piece(i)
		s.insertPiece(i+1, append(make([]uint64, 0, pieceKeys), p[pieceKeys/2:]...))
		s.pieces[i] = p[:pieceKeys/2]
		if at > pieceKeys/2 {
			i, at = i+1, at-pieceKeys/2
		}
	}
	p := s.piece(i)
	*p = slices.Insert(*p, at, k)
}

func (s *keySet) remove(k uint64) {
	i := s.find(k)
	if i < 0 {
		return
	}
	at, there := slices.BinarySearch(s.pieces[i], k)
	if !there {
		return
	}
	s.n--
	p := s.piece(i)
	if *p = slices.Delete(*p, at, at+1); len(*p) == 0 {
		s.pieces, s.own = slices.Delete(s.pieces, i, i+1), slices.Delete(s.own, i, i+1)
	}
}

// each calls f with the keys in order until it returns false.
func (s *keySet) each(f func(uint64) bool) {
	for _, p := range s.pieces {
		for _, k := range p {
			if !f(k) {
				return
			}
		}
	}
}
