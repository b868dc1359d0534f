package seglog

import "moldau/internal/vfs"

// reservation is room on the disk that was set aside behind a segment's end.
type reservation struct {
	seg *segment
	to  int64 // position up to which there is room
}

// Reserve sets room aside for the next aheadBytes of the active segment, within
// segment.bytes, so that they can be appended when others have filled the disk.
// It does nothing while half of it is left, before the first append, and on file
// systems that cannot. An error changes nothing. Owner only.
func (l *Log) Reserve(aheadBytes int64) error {
	s := l.active()
	size := s.size.Load()
	to := min(size+aheadBytes, max(size, l.config.Load().SegmentBytes))
	if size == 0 || l.usable() != nil || l.reserved.seg == s && (l.reserved.to >= to || l.reserved.to-size >= aheadBytes/2) {
		return nil
	}
	h, err := l.env.Files.acquire(s, l.Dir())
	if err != nil {
		return err
	}
	defer h.unpin()
	if r, ok := h.file.(vfs.Reserver); ok {
		if err := r.Reserve(to); err != nil {
			return err
		}
	}
	l.reserved = reservation{s, to}
	return nil
}
