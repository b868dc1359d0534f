package bench

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

func TestFloorMovesAllBytesInEveryMode(t *testing.T) {
	for _, mode := range FloorModes() {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			o := FloorOptions{Chunk: 1000, Bytes: 50_000, Passes: 2, Dir: dir}
			in, stop := io.Pipe()
			out, print := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- FloorServe(t.Context(), mode, o, in, print) }()
			passes, err := o.drive(mode, bufio.NewReader(out))
			if err != nil {
				t.Fatal(err)
			}
			stop.Close()
			if err := <-served; err != nil {
				t.Fatal(err)
			}
			if len(passes) != 2 {
				t.Errorf("%d passes, want 2 after the discarded one", len(passes))
			}
			if mode == FloorIn && passes[0].Sum != passes[1].Sum {
				t.Error("the same bytes have different sums")
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestFloorRefusesNonsense(t *testing.T) {
	for _, o := range []FloorOptions{
		{Chunk: 0, Bytes: 10, Passes: 1}, {Chunk: 20, Bytes: 10, Passes: 1}, {Chunk: 1, Bytes: 10}, {Chunk: 1, Bytes: 10, Passes: 1},
	} {
		if _, err := Floor(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestFloorResultIsTheMedian(t *testing.T) {
	got := floorResult(FloorIn, 10, []floorPass{
		{CPUSeconds: 9, Seconds: 1, Bytes: 1e9}, {CPUSeconds: 1, Seconds: 2, Bytes: 1e9}, {CPUSeconds: 2, Seconds: 4, Bytes: 1e9},
	})
	if got.CPUPerGB != 2 || got.MBPerSecond != 500 {
		t.Errorf("got %+v", got)
	}
	var out strings.Builder
	WriteFloor(&out, []FloorResult{got})
	if !strings.Contains(out.String(), "first pass is discarded") {
		t.Errorf("the report does not say what was discarded:\n%s", out.String())
	}
	if Median(nil) != 0 || Median([]float64{4, 1}) != 2.5 {
		t.Error("median of none or two")
	}
}
