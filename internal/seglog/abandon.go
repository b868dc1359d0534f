package seglog

import "moldau/internal/kafka"

// ActiveBase is the base offset of the active segment; it changes when the log
// rolls.
func (l *Log) ActiveBase() kafka.Offset { return l.active().base }

// Abandon lets go of a log whose folder is to be deleted: nothing is written
// or synced, and every later change fails with ErrClosed. Owner only; ranges
// that are pinned stay valid.
func (l *Log) Abandon() {
	l.closed = true
	for _, s := range l.list() {
		l.env.Files.drop(s)
	}
}
