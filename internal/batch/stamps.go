package batch

import (
	"fmt"

	"moldau/internal/kafka"
)

// EachStamp tells offset and timestamp of the records in order, until f returns
// false. Memory stays flat whatever the batch expands to. Malformed records are
// ErrCorrupt, wrapped.
func (w *Workspace) EachStamp(b Batch, f func(at kafka.Offset, ts kafka.WallMs) (goOn bool)) error {
	c, err := w.cursorOver(b.Codec(), b.Records())
	if err != nil {
		return err
	}
	for i := int32(0); i < b.Count(); i++ {
		ts, delta, err := stamp(c)
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, b.Count(), err)
		}
		at := b.BaseTimestamp() + kafka.WallMs(ts)
		if b.LogAppendTime() {
			at = b.MaxTimestamp()
		}
		if !f(b.BaseOffset()+kafka.Offset(delta), at) {
			return nil
		}
	}
	return nil
}

// stamp reads a record's deltas and passes over the rest of it.
func stamp(c *cursor) (ts, offset int64, err error) {
	size, err := c.varint(5)
	if err != nil {
		return 0, 0, err
	}
	start := c.offset()
	if _, err = c.byte(); err != nil { // attributes, unused
		return 0, 0, err
	}
	if ts, err = c.varint(10); err != nil {
		return 0, 0, err
	}
	if offset, err = c.varint(5); err != nil {
		return 0, 0, err
	}
	rest := size - (c.offset() - start)
	if rest < 0 || offset < 0 {
		return 0, 0, fmt.Errorf("%w: record of %d bytes with offset delta %d", ErrCorrupt, size, offset)
	}
	return ts, offset, c.skip(rest)
}
