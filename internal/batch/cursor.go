package batch

import (
	"errors"
	"fmt"
	"io"
)

// cursor walks over records that lie in memory (r nil, buf all of them) or
// come out of a decompressor (r set, buf a window of fixed size). Memory stays
// flat whatever the stream expands to.
type cursor struct {
	r        io.Reader
	buf      []byte
	pos, end int
	consumed int64 // bytes taken before buf[pos]... see offset
}

// offset is the number of bytes consumed so far.
func (c *cursor) offset() int64 { return c.consumed + int64(c.pos) }

// fill gets at least one more byte; io.EOF at the end of the stream.
func (c *cursor) fill() error {
	if c.r == nil {
		return io.EOF
	}
	c.consumed += int64(c.pos)
	c.pos, c.end = 0, 0
	for tries := 0; tries < 100; tries++ {
		n, err := c.r.Read(c.buf)
		if n > 0 {
			c.end = n
			return nil
		}
		if err == io.EOF {
			return io.EOF
		}
		if err != nil {
			return fmt.Errorf("%w: cannot decompress: %v", ErrCorrupt, err)
		}
	}
	return fmt.Errorf("%w: cannot decompress: %v", ErrCorrupt, io.ErrNoProgress)
}

func (c *cursor) byte() (byte, error) {
	if c.pos == c.end {
		if err := c.fill(); err != nil {
			return 0, short(err)
		}
	}
	b := c.buf[c.pos]
	c.pos++
	return b, nil
}

// varint reads a zigzag varint of at most maxBytes bytes.
func (c *cursor) varint(maxBytes int) (int64, error) {
	// The usual case: one byte, in the window.
	if c.pos < c.end {
		if b := c.buf[c.pos]; b < 0x80 {
			c.pos++
			return int64(b>>1) ^ -int64(b&1), nil
		}
	}
	var u uint64
	for i := 0; i < maxBytes; i++ {
		b, err := c.byte()
		if err != nil {
			return 0, err
		}
		u |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return int64(u>>1) ^ -int64(u&1), nil
		}
	}
	return 0, fmt.Errorf("%w: varint longer than %d bytes", ErrCorrupt, maxBytes)
}

// skip passes over n bytes.
func (c *cursor) skip(n int64) error {
	for {
		if have := int64(c.end - c.pos); n <= have {
			c.pos += int(n)
			return nil
		} else {
			n -= have
			c.pos = c.end
		}
		if err := c.fill(); err != nil {
			return short(err)
		}
	}
}

// atEnd tells whether the stream is used up; an error if it breaks.
func (c *cursor) atEnd() (bool, error) {
	if c.pos < c.end {
		return false, nil
	}
	err := c.fill()
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

func short(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: records end too early", ErrCorrupt)
	}
	return err
}
