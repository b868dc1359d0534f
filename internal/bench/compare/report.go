package compare

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"moldau/internal/bench"
)

// metric is one line of the report.
type metric struct {
	key, label, unit string
	// more is true when more is better.
	more bool
}

// metrics lists all lines in the order of the report.
func metrics() []metric {
	return []metric{
		{"produce_1k_mb_s", "produce 1 KiB, acks=all: throughput", "MB/s", true},
		{"produce_1k_cpu", "produce 1 KiB, acks=all: broker CPU", "CPU-s/GB", false},
		{"produce_100_mb_s", "produce 100 B, acks=all: throughput", "MB/s", true},
		{"produce_100_cpu", "produce 100 B, acks=all: broker CPU", "CPU-s/GB", false},
		{"consume_mb_s", "consume 1 KiB: throughput", "MB/s", true},
		{"consume_cpu", "consume 1 KiB: broker CPU", "CPU-s/GB", false},
		{"ack_p50_ms", "open loop: acknowledgement p50", "ms", false},
		{"ack_p99_ms", "open loop: acknowledgement p99", "ms", false},
		{"ack_p999_ms", "open loop: acknowledgement p99.9", "ms", false},
		{"e2e_p50_ms", "open loop: end to end p50", "ms", false},
		{"e2e_p99_ms", "open loop: end to end p99", "ms", false},
		{"e2e_p999_ms", "open loop: end to end p99.9", "ms", false},
		{"latency_cpu", "open loop: broker CPU", "CPU-s/GB", false},
		{"start_s", "start to ready, empty", "s", false},
		{"stop_s", "stop after load", "s", false},
		{"idle_cpu", "idle CPU, empty", "% of a core", false},
		{"idle_rss_mb", "idle RSS, empty", "MB", false},
		{"load_rss_mb", "peak RSS under load", "MB", false},
		{"many_create_rate", "many partitions: creation, until usable", "partitions/s", true},
		{"many_usable_s", "many partitions: all usable after", "s", false},
		{"many_idle_cpu", "many partitions: idle CPU", "% of a core", false},
		{"many_idle_rss_mb", "many partitions: idle RSS", "MB", false},
		{"many_stop_s", "many partitions: stop", "s", false},
		{"many_restart_s", "many partitions: restart until all usable", "s", false},
		{"many_killed_s", "many partitions: restart after SIGKILL", "s", false},
	}
}

// samples holds what was measured for one server, by metric key.
type samples map[string][]float64

// add records one value.
func (s samples) add(key string, value float64) { s[key] = append(s[key], value) }

// Value is a metric of one server: the median and what it was taken from.
type Value struct {
	Median  float64   `json:"median"`
	Samples []float64 `json:"samples"`
}

// Report is the outcome of Run.
type Report struct {
	Machine Machine `json:"machine"`
	Options Options `json:"options"`
	// Servers holds values by server name and metric key.
	Servers map[string]map[string]Value `json:"servers"`
	// Ratios says by metric key how many times better moldau is: more than 1 is
	// better, whichever direction the metric has. Empty without both servers.
	Ratios map[string]float64  `json:"ratios,omitempty"`
	Floor  []bench.FloorResult `json:"floor"`
	Notes  []string            `json:"notes"`

	titles []Server
}

// Machine says where it was measured.
type Machine struct {
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
	// Load is /proc/loadavg before the first run: above about 0.5, something else
	// uses this machine and the figures suffer.
	Load string `json:"load_average"`
}

// machine describes this one.
func machine() Machine {
	load, _ := os.ReadFile("/proc/loadavg") // absent: empty
	return Machine{runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), strings.TrimSpace(string(load))}
}

// newReport takes the medians and ratios.
func newReport(m Machine, o Options, servers []Server, measured map[string]samples, floor []bench.FloorResult) *Report {
	r := &Report{
		Machine: m,
		Options: o, Servers: map[string]map[string]Value{}, Ratios: map[string]float64{}, Floor: floor, titles: servers,
		Notes: []string{
			fmt.Sprintf("The Go client and the servers share the %d cores of this machine; throughput is that of both together.", runtime.NumCPU()),
			fmt.Sprintf("Medians of %d runs, servers alternating. CPU is user plus system time of the server's process.", o.Runs),
			fmt.Sprintf("Load average before the first run: %s. Above about 0.5, something else used the machine and the figures suffer.", m.Load),
			"Open loop latency counts from the intended send. Each server was warmed up with the same bytes before it was measured.",
			"Ready means: Metadata names a broker and a controller; usable: every partition has a leader that answers ListOffsets.",
			"The floor is warm: files are reused, a first pass is discarded, nothing is fsynced.",
		},
	}
	for _, s := range servers {
		values := map[string]Value{}
		for key, all := range measured[s.Name] {
			values[key] = Value{Median: bench.Median(all), Samples: all}
		}
		r.Servers[s.Name] = values
	}
	for _, m := range metrics() {
		kafka, moldau := r.Servers["kafka"][m.key].Median, r.Servers["moldau"][m.key].Median
		if ratio, ok := better(kafka, moldau, m.more); ok {
			r.Ratios[m.key] = ratio
		}
	}
	return r
}

// better is how many times better b is than a; false when one is missing or 0.
func better(a, b float64, more bool) (float64, bool) {
	if a <= 0 || b <= 0 {
		return 0, false
	}
	if more {
		return b / a, true
	}
	return a / b, true
}

// WriteMarkdown prints the report as tables.
func (r *Report) WriteMarkdown(w io.Writer) {
	head, rule := "| measure | unit |", "| --- | --- |"
	for _, s := range r.titles {
		head += " " + s.Title + " |"
		rule += " ---: |"
	}
	fmt.Fprintln(w, head+" moldau is better by |")
	fmt.Fprintln(w, rule+" ---: |")
	for _, m := range metrics() {
		fmt.Fprintf(w, "| %s | %s |", m.label, m.unit)
		for _, s := range r.titles {
			fmt.Fprintf(w, " %s |", r.cell(s.Name, m.key))
		}
		if ratio, ok := r.Ratios[m.key]; ok {
			fmt.Fprintf(w, " %.2f× |\n", ratio)
		} else {
			fmt.Fprintln(w, " |")
		}
	}
	r.writeFloor(w)
	fmt.Fprintln(w)
	for _, n := range r.Notes {
		fmt.Fprintln(w, "- "+n)
	}
}

// cell is a median, or empty.
func (r *Report) cell(server, key string) string {
	v, ok := r.Servers[server][key]
	if !ok {
		return ""
	}
	return number(v.Median)
}

// number writes about three digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.3f", v), "0")
}

// writeFloor prints what the same bytes cost without a broker, and how far each
// server is from it.
func (r *Report) writeFloor(w io.Writer) {
	if len(r.Floor) == 0 {
		return
	}
	head, rule := "\n| floor (no broker) | chunk | CPU-s/GB | MB/s |", "| --- | ---: | ---: | ---: |"
	for _, s := range r.titles {
		head += " " + s.Title + " CPU |"
		rule += " ---: |"
	}
	fmt.Fprintln(w, head)
	fmt.Fprintln(w, rule)
	for _, f := range r.Floor {
		fmt.Fprintf(w, "| %s | %d | %.3f | %.0f |", f.Mode, f.Chunk, f.CPUPerGB, f.MBPerSecond)
		key := "consume_cpu"
		if f.Mode == bench.FloorIn {
			key = "produce_1k_cpu"
		}
		for _, s := range r.titles {
			ratio, ok := better(r.Servers[s.Name][key].Median, f.CPUPerGB, false)
			if !ok {
				fmt.Fprint(w, " |")
				continue
			}
			fmt.Fprintf(w, " %.1f× |", ratio)
		}
		fmt.Fprintln(w)
	}
}
