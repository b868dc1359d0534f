package vfs

// faultFile is a handle of Fault.
type faultFile struct {
	f     *Fault
	inner File
	name  string
}

// faultOSFile adds the descriptor of a file that has one.
type faultOSFile struct {
	faultFile
	d Descriptor
}

func (f *faultOSFile) Fd() uintptr { return f.d.Fd() }

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.f.before(Op{Kind: OpRead, Name: f.name, Off: off, Len: len(p)}); err != nil {
		return 0, err
	}
	return f.inner.ReadAt(p, off)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	pass, err := f.f.before(Op{Kind: OpWrite, Name: f.name, Off: off, Len: len(p)})
	if err != nil {
		n, _ := f.inner.WriteAt(p[:pass], off)
		return n, err
	}
	return f.inner.WriteAt(p, off)
}

func (f *faultFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	size := 0
	for _, b := range bufs {
		size += len(b)
	}
	pass, err := f.f.before(Op{Kind: OpWrite, Name: f.name, Off: off, Len: size})
	if err == nil {
		return f.inner.WriteVecAt(bufs, off)
	}
	n := 0
	for _, b := range bufs {
		b = b[:min(len(b), pass-n)]
		k, werr := f.inner.WriteAt(b, off+int64(n))
		n += k
		if werr != nil || n == pass {
			break
		}
	}
	return n, err
}

func (f *faultFile) Truncate(size int64) error {
	if _, err := f.f.before(Op{Kind: OpTruncate, Name: f.name, Off: size}); err != nil {
		return err
	}
	return f.inner.Truncate(size)
}

func (f *faultFile) Sync() error {
	if err := f.f.check(OpSync, f.name); err != nil {
		return err
	}
	return f.inner.Sync()
}

func (f *faultFile) Datasync() error {
	if err := f.f.check(OpSync, f.name); err != nil {
		return err
	}
	return f.inner.Datasync()
}

func (f *faultFile) Size() (int64, error) {
	if err := f.f.check(OpStat, f.name); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

func (f *faultFile) Close() error {
	err := f.f.check(OpClose, f.name)
	if cerr := f.inner.Close(); err == nil {
		err = cerr
	}
	return err
}
