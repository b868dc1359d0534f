package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FloorServe is the serving half of Floor. It prints its address, then moves
// o.Bytes on each connection and prints a line of JSON about it, until in ends.
// It removes its file.
func FloorServe(ctx context.Context, mode FloorMode, o FloorOptions, in io.Reader, out io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "moldau-floor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, err := os.OpenFile(filepath.Join(dir, "floor.log"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	chunk := make([]byte, o.Chunk)
	if mode != FloorIn {
		if err := fillFile(file, o.Bytes); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() { // the parent ends us by closing our input
		_, _ = io.Copy(io.Discard, in)
		listener.Close()
	}()
	fmt.Fprintln(out, listener.Addr())
	report := bufio.NewWriter(out)
	for ctx.Err() == nil {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		pass, err := floorServePass(mode, conn.(*net.TCPConn), file, chunk, o.Bytes)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(report).Encode(pass); err != nil {
			return err
		}
		if err := report.Flush(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// fillFile writes total bytes of data that are not all zero.
func fillFile(file *os.File, total int64) error {
	payloads := NewPayloads(1<<20, 1, 1)
	for at := int64(0); at < total; {
		n, err := file.WriteAt(payloads.Next()[:min(1<<20, total-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// floorServePass moves total bytes on one connection and closes it.
func floorServePass(mode FloorMode, conn *net.TCPConn, file *os.File, chunk []byte, total int64) (floorPass, error) {
	defer conn.Close()
	var err error
	var sum uint32
	cpu, start := ownCPU(), time.Now()
	switch mode {
	case FloorIn:
		sum, err = floorIn(conn, file, chunk, total)
	case FloorSendfile:
		err = floorSendfile(conn, file, len(chunk), total)
	case FloorCopy:
		err = floorCopy(conn, file, chunk, total)
	default:
		err = fmt.Errorf("unknown mode %q", mode)
	}
	pass := floorPass{CPUSeconds: (ownCPU() - cpu).Seconds(), Seconds: time.Since(start).Seconds(), Bytes: total, Sum: sum}
	return pass, err
}

// floorIn reads chunks, sums them and writes them one behind the other.
// It returns the sums combined, so that nothing can leave them out.
func floorIn(conn net.Conn, file *os.File, chunk []byte, total int64) (sum uint32, err error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for at := int64(0); at < total; at += int64(len(chunk)) {
		if _, err := io.ReadFull(conn, chunk); err != nil {
			return 0, err
		}
		sum ^= crc32.Checksum(chunk, table)
		if _, err := file.WriteAt(chunk, at); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// floorCopy reads chunks from the file and writes them to the socket.
func floorCopy(conn net.Conn, file *os.File, chunk []byte, total int64) error {
	for at := int64(0); at < total; at += int64(len(chunk)) {
		if _, err := file.ReadAt(chunk, at); err != nil {
			return err
		}
		if _, err := conn.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// floorSendfile sends chunks with an offset of our own.
func floorSendfile(conn *net.TCPConn, file *os.File, chunk int, total int64) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	in := int(file.Fd())
	for at := int64(0); at < total; {
		left, offset := chunk, at
		var failed error
		err := raw.Write(func(out uintptr) bool {
			for left > 0 {
				n, err := unix.Sendfile(int(out), in, &offset, left)
				switch {
				case err == syscall.EAGAIN:
					return false // wait until the socket has room
				case err == syscall.EINTR:
				case err != nil:
					failed = fmt.Errorf("sendfile at %d: %w", offset, err)
					return true
				case n == 0:
					failed = fmt.Errorf("sendfile at %d: %w", offset, io.ErrUnexpectedEOF)
					return true
				default:
					left -= n
				}
			}
			return true
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		at += int64(chunk)
	}
	return nil
}
