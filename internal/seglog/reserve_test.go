package seglog

import (
	"testing"

	"golang.org/x/sys/unix"

	"moldau/internal/vfs"
)

// What is reserved is taken from the disk and does not show in the file's size;
// it follows the end of the log. Fails if Reserve does not call the file.
func TestReserveTakesRoomAheadOfTheEnd(t *testing.T) {
	b := newBed(t, vfs.OS{})
	b.dir = t.TempDir() + "/t-0"
	if fd, err := unix.Open(t.TempDir()+"/probe", unix.O_CREAT|unix.O_RDWR, 0o600); err != nil {
		t.Fatal(err)
	} else if unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 4096) == unix.EOPNOTSUPP {
		t.Skip("this file system reserves nothing")
	}
	b.open()
	const ahead = 256 << 10
	ok(t, b.l.Reserve(ahead)) // nothing is there yet
	for range 3 {
		for start := b.l.SizeBytes(); b.l.SizeBytes() < start+ahead; {
			b.append(0, 1000)
			ok(t, b.l.Reserve(ahead))
			var st unix.Stat_t
			ok(t, unix.Stat(seg(b, 0, extLog), &st))
			if st.Size != b.l.SizeBytes() {
				t.Fatalf("the file has %d bytes, the log %d", st.Size, b.l.SizeBytes())
			}
			if room := st.Blocks*512 - st.Size; room < ahead/2 {
				t.Fatalf("%d bytes of room ahead", room)
			}
		}
	}
	ok(t, b.l.Close())
	b.clean = true
	b.open()
	b.readAll(0)
	ok(t, b.l.Close())
}
