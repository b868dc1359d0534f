package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FloorMode is one way of moving bytes between a socket and a file.
type FloorMode string

// The ways that Floor measures.
const (
	// FloorIn is socket → CRC-32C → pwrite into the page cache, no fsync.
	FloorIn FloorMode = "in"
	// FloorSendfile is file → socket by sendfile.
	FloorSendfile FloorMode = "out-sendfile"
	// FloorCopy is file → socket by pread and write.
	FloorCopy FloorMode = "out-copy"
)

// FloorModes lists all modes in the order of a report.
func FloorModes() []FloorMode { return []FloorMode{FloorIn, FloorSendfile, FloorCopy} }

// FloorOptions describe a floor measurement.
type FloorOptions struct {
	// Chunk is how many bytes the serving half handles at a time, as a broker
	// does one batch; Bytes how many a pass moves.
	Chunk, Bytes int64
	// Passes is how many count; one more runs before them and is discarded.
	Passes int
	// Dir is where the file goes; it must be on the disk of interest.
	Dir string
	// Serve starts the serving half, in a process of its own so that its CPU can
	// be told from ours: a program and arguments, to which the mode, chunk and
	// directory are appended as --serve MODE --chunk N --dir DIR.
	Serve []string
}

// FloorResult is the floor of one mode: the median of its passes.
type FloorResult struct {
	Mode   FloorMode `json:"mode"`
	Chunk  int64     `json:"chunk_bytes"`
	Bytes  int64     `json:"bytes"`
	Passes int       `json:"passes"`
	// CPUPerGB is what the serving half spent, user plus system, per 1e9 bytes.
	CPUPerGB    float64 `json:"cpu_s_per_gb"`
	MBPerSecond float64 `json:"mb_per_s"`
}

// floorPass is what the serving half reports after a pass, as one JSON line.
type floorPass struct {
	CPUSeconds float64 `json:"cpu_s"`
	Seconds    float64 `json:"seconds"`
	Bytes      int64   `json:"bytes"`
	Sum        uint32  `json:"sum,omitempty"` // of FloorIn: the CRCs, combined
}

// Floor measures every mode in turn.
func Floor(ctx context.Context, o FloorOptions) ([]FloorResult, error) {
	if o.Chunk < 1 || o.Chunk > 64<<20 || o.Bytes < o.Chunk || o.Passes < 1 {
		return nil, errors.New("floor: want chunks of 1 B to 64 MiB, at least one chunk of bytes, and at least 1 pass")
	}
	if st, err := os.Stat(o.Dir); err != nil {
		return nil, fmt.Errorf("floor: %w; pass --dir with a folder on the disk of interest", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("floor: %s is no folder; pass --dir with one on the disk of interest", o.Dir)
	}
	o.Bytes -= o.Bytes % o.Chunk
	var results []FloorResult
	for _, mode := range FloorModes() {
		r, err := o.measure(ctx, mode)
		if err != nil {
			return nil, fmt.Errorf("floor %s: %w", mode, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measure runs all passes of one mode against a child process.
func (o FloorOptions) measure(ctx context.Context, mode FloorMode) (r FloorResult, err error) {
	if len(o.Serve) == 0 {
		return r, errors.New("no command for the serving half")
	}
	args := append(slices.Clone(o.Serve[1:]), "--serve", string(mode), "--chunk", strconv.FormatInt(o.Chunk, 10),
		"--bytes", strconv.FormatInt(o.Bytes, 10), "--dir", o.Dir)
	child := exec.CommandContext(ctx, o.Serve[0], args...)
	var stderr strings.Builder
	child.Stderr = &stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return r, err
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := child.Start(); err != nil {
		return r, fmt.Errorf("start the serving half: %w", err)
	}
	passes, err := o.drive(mode, bufio.NewReader(stdout))
	_ = stdin.Close() // the child ends at the end of its input
	if wait := child.Wait(); err == nil && wait != nil {
		err = wait
	}
	if err != nil {
		return r, fmt.Errorf("%w %s", err, stderr.String())
	}
	return floorResult(mode, o.Chunk, passes), nil
}

// drive is the other end of the socket, whose CPU does not count. It returns the
// passes after the discarded first.
func (o FloorOptions) drive(mode FloorMode, child *bufio.Reader) ([]floorPass, error) {
	address, err := child.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the serving half gave no address: %w", err)
	}
	buf := NewPayloads(1<<20, 1, 1).Next()
	var passes []floorPass
	for i := range o.Passes + 1 {
		conn, err := net.DialTimeout("tcp", strings.TrimSpace(address), dialTimeout)
		if err != nil {
			return nil, err
		}
		if mode == FloorIn {
			err = floorSend(conn, buf, o.Bytes)
		} else {
			err = floorReceive(conn, make([]byte, 1<<20))
		}
		if err := errors.Join(err, conn.Close()); err != nil {
			return nil, err
		}
		line, err := child.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the serving half reported nothing: %w", err)
		}
		var pass floorPass
		if err := json.Unmarshal(line, &pass); err != nil {
			return nil, fmt.Errorf("report %q: %w", line, err)
		}
		if pass.Bytes != o.Bytes {
			return nil, fmt.Errorf("the serving half moved %d of %d bytes", pass.Bytes, o.Bytes)
		}
		if i > 0 {
			passes = append(passes, pass)
		}
	}
	return passes, nil
}

// floorSend writes total bytes, from buf over and over.
func floorSend(conn net.Conn, buf []byte, total int64) error {
	for total > 0 {
		n, err := conn.Write(buf[:min(int64(len(buf)), total)])
		if err != nil {
			return err
		}
		total -= int64(n)
	}
	return nil
}

// floorReceive reads until the other side closes.
func floorReceive(conn net.Conn, buf []byte) error {
	for {
		if _, err := conn.Read(buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// floorResult takes the medians.
func floorResult(mode FloorMode, chunk int64, passes []floorPass) FloorResult {
	var cpu, rate []float64
	for _, p := range passes {
		cpu = append(cpu, perGB(time.Duration(p.CPUSeconds*1e9), p.Bytes))
		rate = append(rate, float64(p.Bytes)/1e6/p.Seconds)
	}
	return FloorResult{
		Mode: mode, Chunk: chunk, Bytes: passes[0].Bytes, Passes: len(passes),
		CPUPerGB: Median(cpu), MBPerSecond: Median(rate),
	}
}

// Median returns the middle value, or the mean of the two in the middle; 0 for
// none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// WriteFloor prints the results for people.
func WriteFloor(w io.Writer, results []FloorResult) {
	names := map[FloorMode]string{
		FloorIn: "in:  socket → CRC-32C → pwrite", FloorSendfile: "out: sendfile → socket", FloorCopy: "out: pread + write → socket",
	}
	fmt.Fprintf(w, "%-32s %12s %12s %12s\n", "floor", "chunk", "CPU-s/GB", "MB/s")
	for _, r := range results {
		fmt.Fprintf(w, "%-32s %12d %12.3f %12.0f\n", names[r.Mode], r.Chunk, r.CPUPerGB, r.MBPerSecond)
	}
	fmt.Fprintln(w, "note: warm: one file is reused and a first pass is discarded, so pages are in the cache and allocated;")
	fmt.Fprintln(w, "      no fsync; CPU of the serving process only; the other end shares this machine's cores")
}
