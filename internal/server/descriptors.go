package server

import (
	"math"

	"golang.org/x/sys/unix"
)

const (
	// segmentFiles bounds the descriptors of segments.
	segmentFiles = 4096
	// otherFiles are descriptors for all else: the metadata log, side files,
	// connections to other nodes.
	otherFiles = 128
)

// descriptors shares what the process may open between segments and connections.
// Who opens connections without end must not keep the logs from their files: a log
// that cannot be written takes its directory offline.
func descriptors() (segments, connections int) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return segmentFiles, math.MaxInt32
	}
	return shareDescriptors(int(limit.Cur))
}

func shareDescriptors(limit int) (segments, connections int) {
	segments = min(segmentFiles, limit/4)
	return segments, max(limit-segments-otherFiles, limit/4)
}
