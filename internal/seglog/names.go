package seglog

import (
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Endings of file names (Kafka's LogFileUtils).
const (
	extLog      = ".log"
	extIndex    = ".index"
	extTime     = ".timeindex"
	extTxn      = ".txnindex"
	extSnapshot = ".snapshot"
	extDeleted  = ".deleted"
	extCleaned  = ".cleaned"
	extSwap     = ".swap"

	epochFile     = "leader-epoch-checkpoint"
	partitionFile = "partition.metadata"
	// A snapshot of the metadata log that is to be deleted belongs to the
	// quorum, not to us.
	extCheckpointDeleted = ".checkpoint.deleted"

	offsetDigits = 20
)

// fileName is the offset in 20 digits and the ending.
func fileName(o kafka.Offset, ext string) string {
	var buf [offsetDigits + 16]byte
	digits := strconv.AppendInt(buf[offsetDigits:offsetDigits], int64(o), 10)
	pad := offsetDigits - len(digits)
	for i := range pad {
		buf[i] = '0'
	}
	copy(buf[pad:], digits)
	return string(buf[:offsetDigits]) + ext
}

// parseName splits a file name into its offset and the rest, e.g. ".log" or
// ".index.swap". ok is false for names that do not begin with an offset.
func parseName(name string) (o kafka.Offset, ext string, ok bool) {
	i := strings.IndexByte(name, '.')
	if i != offsetDigits {
		return 0, "", false
	}
	for _, c := range []byte(name[:i]) {
		if c < '0' || c > '9' {
			return 0, "", false
		}
	}
	n, err := strconv.ParseInt(name[:i], 10, 64)
	if err != nil {
		return 0, "", false
	}
	return kafka.Offset(n), name[i:], true
}
