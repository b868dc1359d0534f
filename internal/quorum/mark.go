package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// markFile holds the recovery point of the metadata log. It is ours; Kafka
// ignores files that it does not know.
const markFile = "recovery-point"

// markSize: the offset, and a checksum over it.
const markSize = 12

// recoveryMark is an offset below which the metadata log is durable. Raising
// it needs no sync: an older mark, or a torn one, which counts as 0, only means
// that more of the log is taken for a tail. Lowering it is durable before the
// log is cut.
type recoveryMark struct {
	f      vfs.File
	offset kafka.Offset
}

func openRecoveryMark(fsys vfs.FS, folder string) (*recoveryMark, error) {
	if err := fsys.MkdirAll(folder); err != nil {
		return nil, err
	}
	name := folder + "/" + markFile
	f, err := fsys.Open(name, vfs.Create)
	if err != nil {
		return nil, err
	}
	var b [markSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	m := &recoveryMark{f: f}
	if o, ok := decodeMark(b[:n]); ok {
		m.offset = o
	}
	return m, nil
}

func decodeMark(b []byte) (kafka.Offset, bool) {
	if len(b) != markSize || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
		return 0, false
	}
	o := kafka.Offset(binary.BigEndian.Uint64(b))
	return o, o >= 0
}

func (m *recoveryMark) write(o kafka.Offset) error {
	var b [markSize]byte
	binary.BigEndian.PutUint64(b[:], uint64(o))
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	if _, err := m.f.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("%s: %w", markFile, err)
	}
	m.offset = o
	return nil
}

// raise says that everything below o is durable.
func (m *recoveryMark) raise(o kafka.Offset) error {
	if o <= m.offset {
		return nil
	}
	return m.write(o)
}

// lower says, durably, that the log may end at o.
func (m *recoveryMark) lower(o kafka.Offset) error {
	if o >= m.offset {
		return nil
	}
	if err := m.write(o); err != nil {
		return err
	}
	return m.f.Sync()
}

// Close lets go of the file.
func (m *recoveryMark) Close() error { return m.f.Close() }
