package logdir

import (
	"errors"
	"io/fs"
	"strings"

	"moldau/internal/vfs"
)

// BootMarkFile names the boot of the machine in which we last wrote to a log
// directory. It is there from the end of a start, when recovery has dealt with
// what was before, to the next clean stop. Kafka passes over files it does not
// know.
const BootMarkFile = ".moldau_boot"

// Intact tells whether everything that we ever wrote to the directory, flushed or
// not, is still there, as far as the power is concerned: we stopped cleanly, or
// never wrote, or the machine has been on since. boot is the boot it is in now; ""
// if that is not known.
func Intact(fsys vfs.FS, dir, boot string) (bool, error) {
	data, err := vfs.ReadFile(fsys, dir+"/"+BootMarkFile)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && boot != "" && strings.TrimSpace(string(data)) == boot, err
}

// WriteBootMark writes the mark, durably, before anything is appended.
func WriteBootMark(fsys vfs.FS, dir, boot string) error {
	name := dir + "/" + BootMarkFile
	if old, err := vfs.ReadFile(fsys, name); err == nil && string(old) == boot+"\n" {
		return nil
	}
	return vfs.WriteFileAtomic(fsys, name, []byte(boot+"\n"))
}

// RemoveBootMark removes the mark behind a clean stop. If that is not durable, the
// next start is only more careful.
func RemoveBootMark(fsys vfs.FS, dir string) error {
	err := fsys.Remove(dir + "/" + BootMarkFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
