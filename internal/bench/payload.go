package bench

import "math/rand/v2"

// payloadWindowBytes is the size of the pool that record values are cut from. It
// is larger than any compressor's window within one batch.
const payloadWindowBytes = 8 << 20

// payloadBlockBytes is the unit in which random and repetitive bytes alternate.
const payloadBlockBytes = 128

// Payloads cuts record values out of one pool of bytes, at ever different
// places, so that values cost nothing to make and are not all identical. The
// values overlap and must not be written to.
//
// Payloads is used by one goroutine; the pool behind it may be shared.
type Payloads struct {
	window []byte
	size   int
	at     int
}

// NewPayloads makes values of size bytes. ratio is how many times smaller a good
// compressor gets them, about: 1 or less is random and does not compress.
func NewPayloads(size int, ratio float64, seed uint64) *Payloads {
	return &Payloads{window: payloadWindow(size, ratio, seed), size: size}
}

// Share returns the values of client i out of n, cut from the same pool from
// another place on.
func (p *Payloads) Share(i, n int) *Payloads {
	return &Payloads{window: p.window, size: p.size, at: i * (payloadWindowBytes / n) % payloadWindowBytes}
}

// payloadWindow fills a pool for values of size bytes.
func payloadWindow(size int, ratio float64, seed uint64) []byte {
	window := make([]byte, payloadWindowBytes+size)
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	source := rand.NewChaCha8(key)
	if ratio <= 1 {
		_, _ = source.Read(window) // never fails
		return window
	}
	random := max(int(payloadBlockBytes/ratio), 1)
	for block := window; len(block) > 0; block = block[min(payloadBlockBytes, len(block)):] {
		part := block[:min(payloadBlockBytes, len(block))]
		_, _ = source.Read(part[:min(random, len(part))])
		for i := random; i < len(part); i++ {
			part[i] = "moldau flows through Prague; "[i%29]
		}
	}
	return window
}

// Next returns the next value. Its content must not be changed.
func (p *Payloads) Next() []byte {
	value := p.window[p.at : p.at+p.size : p.at+p.size]
	// An odd stride visits every offset before it repeats one.
	p.at = (p.at + p.size | 1) % payloadWindowBytes
	return value
}
