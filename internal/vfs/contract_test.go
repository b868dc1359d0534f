package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"moldau/internal/vfs"
)

// Every implementation keeps the same contract.
func TestContract(t *testing.T) {
	impls := map[string]func(t *testing.T) (vfs.FS, string){
		"os":       func(t *testing.T) (vfs.FS, string) { return vfs.OS{}, t.TempDir() },
		"mem":      func(t *testing.T) (vfs.FS, string) { return mem(t), "/d" },
		"fault":    func(t *testing.T) (vfs.FS, string) { return vfs.NewFault(mem(t)), "/d" },
		"fault-os": func(t *testing.T) (vfs.FS, string) { return vfs.NewFault(vfs.OS{}), t.TempDir() },
	}
	tests := map[string]func(t *testing.T, fsys vfs.FS, dir string){
		"modes": testModes, "read and write": testReadWrite, "vectors": testVectors, "truncate": testTruncate,
		"rename": testRename, "remove": testRemove, "folders": testFolders, "closed": testClosed,
		"lock": testLock, "space": testSpace, "atomic": testAtomic, "unlinked": testUnlinked,
	}
	for impl, open := range impls {
		for name, test := range tests {
			t.Run(impl+"/"+name, func(t *testing.T) {
				fsys, dir := open(t)
				test(t, fsys, dir)
			})
		}
	}
}

func mem(t *testing.T) *vfs.Mem {
	m := vfs.NewMem()
	check(t, m.MkdirAll("/d"))
	check(t, m.SyncDir("/"))
	return m
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	f, err := fsys.Open(name, vfs.CreateTruncate)
	check(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	check(t, err)
	check(t, f.Close())
}

func want(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, name)
	check(t, err)
	if string(got) != content {
		t.Errorf("%s holds %q, want %q", name, got, content)
	}
}

func wantErr(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

func testModes(t *testing.T, fsys vfs.FS, dir string) {
	name := dir + "/f"
	for _, m := range []vfs.Mode{vfs.ReadOnly, vfs.ReadWrite} {
		_, err := fsys.Open(name, m)
		wantErr(t, err, fs.ErrNotExist)
	}
	_, err := fsys.Open(dir+"/none/f", vfs.Create)
	wantErr(t, err, fs.ErrNotExist)
	write(t, fsys, name, "abc")
	_, err = fsys.Open(name, vfs.CreateNew)
	wantErr(t, err, fs.ErrExist)
	f, err := fsys.Open(name, vfs.Create)
	check(t, err)
	check(t, f.Close())
	want(t, fsys, name, "abc")
	f, err = fsys.Open(name, vfs.ReadOnly)
	check(t, err)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a read-only file")
	}
	check(t, f.Close())
	f, err = fsys.Open(name, vfs.CreateTruncate)
	check(t, err)
	check(t, f.Close())
	want(t, fsys, name, "")
}

func testReadWrite(t *testing.T, fsys vfs.FS, dir string) {
	f, err := fsys.Open(dir+"/f", vfs.Create)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("xyz"), 5)
	check(t, err)
	buf := make([]byte, 10)
	n, err := f.ReadAt(buf, 0)
	if n != 8 || err != io.EOF || !bytes.Equal(buf[:8], []byte("\x00\x00\x00\x00\x00xyz")) {
		t.Errorf("read %d %q %v", n, buf[:n], err)
	}
	if n, err = f.ReadAt(buf, 8); n != 0 || err != io.EOF {
		t.Errorf("read at the end: %d %v", n, err)
	}
	if n, err = f.ReadAt(buf[:2], 5); n != 2 || err != nil {
		t.Errorf("read inside: %d %v", n, err)
	}
	if size, err := f.Size(); size != 8 || err != nil {
		t.Errorf("size %d %v", size, err)
	}
	check(t, f.Sync())
	check(t, f.Datasync())
}

func testVectors(t *testing.T, fsys vfs.FS, dir string) {
	f, err := fsys.Open(dir+"/f", vfs.Create)
	check(t, err)
	defer f.Close()
	bufs := [][]byte{[]byte("ab"), nil, []byte("c"), []byte("defg")}
	n, err := f.WriteVecAt(bufs, 1)
	if n != 7 || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	want(t, fsys, dir+"/f", "\x00abcdefg")
	many := make([][]byte, 3000)
	for i := range many {
		many[i] = []byte{byte(i)}
	}
	if n, err = f.WriteVecAt(many, 0); n != 3000 || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	got, err := vfs.ReadFile(fsys, dir+"/f")
	check(t, err)
	if !bytes.Equal(got, bytes.Join(many, nil)) {
		t.Error("many buffers read back differently")
	}
	if string(bufs[0]) != "ab" || len(bufs) != 4 {
		t.Error("the caller's vectors were changed")
	}
}

func testTruncate(t *testing.T, fsys vfs.FS, dir string) {
	f, err := fsys.Open(dir+"/f", vfs.Create)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("abcdef"), 0)
	check(t, err)
	check(t, f.Truncate(2))
	check(t, f.Truncate(4))
	want(t, fsys, dir+"/f", "ab\x00\x00")
}

func testRename(t *testing.T, fsys vfs.FS, dir string) {
	write(t, fsys, dir+"/a", "1")
	write(t, fsys, dir+"/b", "2")
	check(t, fsys.Rename(dir+"/a", dir+"/b"))
	want(t, fsys, dir+"/b", "1")
	_, err := fsys.Stat(dir + "/a")
	wantErr(t, err, fs.ErrNotExist)
	wantErr(t, fsys.Rename(dir+"/a", dir+"/c"), fs.ErrNotExist)
	check(t, fsys.MkdirAll(dir+"/x/y"))
	check(t, fsys.Rename(dir+"/b", dir+"/x/b"))
	check(t, fsys.Rename(dir+"/x", dir+"/z"))
	want(t, fsys, dir+"/z/b", "1")
}

func testRemove(t *testing.T, fsys vfs.FS, dir string) {
	wantErr(t, fsys.Remove(dir+"/a"), fs.ErrNotExist)
	write(t, fsys, dir+"/a", "1")
	check(t, fsys.Remove(dir+"/a"))
	check(t, fsys.MkdirAll(dir+"/x/y"))
	write(t, fsys, dir+"/x/y/f", "1")
	if fsys.Remove(dir+"/x") == nil {
		t.Error("removed a folder that is not empty")
	}
	check(t, fsys.RemoveAll(dir+"/x"))
	check(t, fsys.RemoveAll(dir+"/x"))
	_, err := fsys.Stat(dir + "/x")
	wantErr(t, err, fs.ErrNotExist)
}

func testFolders(t *testing.T, fsys vfs.FS, dir string) {
	check(t, fsys.MkdirAll(dir+"/b"))
	check(t, fsys.MkdirAll(dir+"/b"))
	write(t, fsys, dir+"/c", "12345")
	write(t, fsys, dir+"/a", "")
	got, err := fsys.ReadDir(dir)
	check(t, err)
	if !slices.Equal(got, []vfs.DirEntry{{Name: "a"}, {Name: "b", IsDir: true}, {Name: "c"}}) {
		t.Errorf("list %v", got)
	}
	info, err := fsys.Stat(dir + "/c")
	if err != nil || info.IsDir || info.SizeBytes != 5 {
		t.Errorf("stat %+v %v", info, err)
	}
	if info, err = fsys.Stat(dir + "/b"); err != nil || !info.IsDir {
		t.Errorf("stat %+v %v", info, err)
	}
	_, err = fsys.ReadDir(dir + "/none")
	wantErr(t, err, fs.ErrNotExist)
	check(t, fsys.SyncDir(dir))
	wantErr(t, fsys.SyncDir(dir+"/none"), fs.ErrNotExist)
	check(t, fsys.SyncAll(dir))
	wantErr(t, fsys.SyncAll(dir+"/none"), fs.ErrNotExist)
	if fsys.MkdirAll(dir+"/c/d") == nil {
		t.Error("made a folder in a file")
	}
}

func testClosed(t *testing.T, fsys vfs.FS, dir string) {
	f, err := fsys.Open(dir+"/f", vfs.Create)
	check(t, err)
	check(t, f.Close())
	wantErr(t, f.Close(), vfs.ErrClosed)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a closed file")
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err == nil || err == io.EOF {
		t.Error("read from a closed file:", err)
	}
}

// Trap 10, the half that needs no JVM: two nodes in one process. With flock or
// a record lock in OS.Lock the second call would succeed.
func testLock(t *testing.T, fsys vfs.FS, dir string) {
	l, err := fsys.Lock(dir + "/.lock")
	check(t, err)
	_, err = fsys.Lock(dir + "/.lock")
	var locked *vfs.LockedError
	if !errors.As(err, &locked) || locked.PID == 0 || locked.Name != dir+"/.lock" {
		t.Fatalf("second lock: %v", err)
	}
	check(t, l.Close())
	l, err = fsys.Lock(dir + "/.lock")
	check(t, err)
	check(t, l.Close())
}

func testSpace(t *testing.T, fsys vfs.FS, dir string) {
	s, err := fsys.Space(dir)
	if err != nil || s.TotalBytes <= 0 || s.FreeBytes <= 0 || s.FreeBytes > s.TotalBytes {
		t.Errorf("space %+v %v", s, err)
	}
}

func testAtomic(t *testing.T, fsys vfs.FS, dir string) {
	check(t, vfs.WriteFileAtomic(fsys, dir+"/f", []byte("one")))
	check(t, vfs.WriteFileAtomic(fsys, dir+"/f", []byte("2")))
	want(t, fsys, dir+"/f", "2")
	list, err := fsys.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("left over: %v %v", list, err)
	}
}

func testUnlinked(t *testing.T, fsys vfs.FS, dir string) {
	write(t, fsys, dir+"/f", "abc")
	f, err := fsys.Open(dir+"/f", vfs.ReadOnly)
	check(t, err)
	defer f.Close()
	check(t, fsys.Remove(dir+"/f"))
	buf := make([]byte, 3)
	if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "abc" {
		t.Errorf("a removed file that is open reads %q %v", buf, err)
	}
}
