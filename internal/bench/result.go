package bench

import (
	"fmt"
	"io"
	"time"
)

// Result is the outcome of one measurement. It is printed as text with Write or
// as one JSON object.
type Result struct {
	// Test is produce, consume, latency, commits or rebalances. The last two move no
	// payload: Bytes is 0, and Records counts offsets and assignments.
	Test string `json:"test"`
	// Topic is what was written or read, Partitions how many it has.
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	// Records and Bytes count what was acknowledged or read; Bytes is payload.
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Seconds is from the first record to the last acknowledgement or record.
	Seconds float64 `json:"seconds"`
	// MBPerSecond and RecordsPerSecond are what follows from the above.
	MBPerSecond      float64 `json:"mb_per_s"`
	RecordsPerSecond float64 `json:"records_per_s"`
	// TargetMBPerSecond is the open-loop rate; 0 at full speed.
	TargetMBPerSecond float64 `json:"target_mb_per_s,omitempty"`
	// Failed counts records that were not acknowledged; FirstError says why.
	Failed     int64  `json:"failed"`
	FirstError string `json:"first_error,omitempty"`
	// Ack is the latency from the (intended) send to the acknowledgement.
	Ack *Percentiles `json:"ack,omitempty"`
	// EndToEnd is the latency from the intended send to the consumer.
	EndToEnd *Percentiles `json:"end_to_end,omitempty"`
	// Broker is present when its process id was given.
	Broker *BrokerUsage `json:"broker,omitempty"`
	// ClientCPUSeconds is what this process spent, ClientCPUPerGB the same per
	// 1e9 bytes of payload.
	ClientCPUSeconds float64 `json:"client_cpu_s"`
	ClientCPUPerGB   float64 `json:"client_cpu_s_per_gb"`
	// Notes are remarks a reader needs to judge the figures.
	Notes []string `json:"notes,omitempty"`
}

// BrokerUsage is what the broker's process spent during a measurement.
type BrokerUsage struct {
	PID          int     `json:"pid"`
	CPUSeconds   float64 `json:"cpu_s"`
	CPUPerGB     float64 `json:"cpu_s_per_gb"`
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
	EndRSSBytes  int64   `json:"end_rss_bytes"`
	// PeakIsLifetime is true when the peak could not be reset and therefore
	// covers the whole life of the process.
	PeakIsLifetime bool `json:"peak_is_lifetime,omitempty"`
}

// meter brackets a measurement: time, client CPU and the broker's process.
type meter struct {
	broker   *Process
	before   Usage
	lifetime bool
	ownCPU   time.Duration
	start    time.Time
}

// startMeter takes the first readings. brokerPID 0 means that none is known.
func startMeter(brokerPID int) (*meter, error) {
	m := &meter{}
	if brokerPID != 0 {
		m.broker = &Process{PID: brokerPID}
		m.lifetime = m.broker.ResetPeak() != nil
		var err error
		if m.before, err = m.broker.Usage(); err != nil {
			return nil, err
		}
	}
	m.ownCPU, m.start = ownCPU(), time.Now()
	return m, nil
}

// finish takes the last readings and fills in everything that follows from them
// and from r.Records and r.Bytes.
func (m *meter) finish(r *Result) error {
	elapsed := time.Since(m.start)
	cpu := ownCPU() - m.ownCPU
	r.Seconds = elapsed.Seconds()
	if r.Seconds > 0 {
		r.MBPerSecond = float64(r.Bytes) / 1e6 / r.Seconds
		r.RecordsPerSecond = float64(r.Records) / r.Seconds
	}
	r.ClientCPUSeconds = cpu.Seconds()
	r.ClientCPUPerGB = perGB(cpu, r.Bytes)
	if m.broker == nil {
		return nil
	}
	after, err := m.broker.Usage()
	if err != nil {
		return err
	}
	spent := after.CPU - m.before.CPU
	r.Broker = &BrokerUsage{
		PID: m.broker.PID, CPUSeconds: spent.Seconds(), CPUPerGB: perGB(spent, r.Bytes),
		PeakRSSBytes: after.PeakRSSBytes, EndRSSBytes: after.RSSBytes, PeakIsLifetime: m.lifetime,
	}
	return nil
}

// perGB is CPU-seconds per 1e9 bytes; 0 when no bytes moved.
func perGB(cpu time.Duration, bytes int64) float64 {
	if bytes == 0 {
		return 0
	}
	return cpu.Seconds() / (float64(bytes) / 1e9)
}

// Write prints the result for people.
func (r *Result) Write(w io.Writer) {
	if r.Bytes == 0 && r.Failed == 0 {
		r.writeCounts(w)
		return
	}
	fmt.Fprintf(w, "%s %s (%d partitions): %d records, %s in %.2f s\n", r.Test, r.Topic, r.Partitions, r.Records, FormatSize(r.Bytes), r.Seconds)
	fmt.Fprintf(w, "%-12s %.1f MB/s, %.0f records/s", "throughput", r.MBPerSecond, r.RecordsPerSecond)
	if r.TargetMBPerSecond > 0 {
		fmt.Fprintf(w, " (target %.1f MB/s)", r.TargetMBPerSecond)
	}
	fmt.Fprintln(w)
	if r.Failed > 0 {
		fmt.Fprintf(w, "%-12s %d records, first: %s\n", "failed", r.Failed, r.FirstError)
	}
	writeLatencies(w, []latencyRow{{"  ack", r.Ack}, {"  end-to-end", r.EndToEnd}})
	if b := r.Broker; b != nil {
		fmt.Fprintf(w, "%-12s %.2f CPU-s, %.2f CPU-s/GB, RSS peak %s, now %s", "broker", b.CPUSeconds, b.CPUPerGB, FormatSize(b.PeakRSSBytes), FormatSize(b.EndRSSBytes))
		if b.PeakIsLifetime {
			fmt.Fprint(w, " (peak since its start)")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%-12s %.2f CPU-s, %.2f CPU-s/GB\n", "client", r.ClientCPUSeconds, r.ClientCPUPerGB)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

// writeCounts prints a measurement of requests that move no payload.
func (r *Result) writeCounts(w io.Writer) {
	fmt.Fprintf(w, "%s %s: %d in %.2f s\n", r.Test, r.Topic, r.Records, r.Seconds)
	fmt.Fprintf(w, "%-12s %.0f/s\n", "throughput", r.RecordsPerSecond)
	writeLatencies(w, []latencyRow{{"  answer", r.Ack}})
	if b := r.Broker; b != nil {
		fmt.Fprintf(w, "%-12s %.2f CPU-s, RSS peak %s, now %s", "broker", b.CPUSeconds, FormatSize(b.PeakRSSBytes), FormatSize(b.EndRSSBytes))
		if b.CPUSeconds > 0 {
			fmt.Fprintf(w, ", %.0f per CPU-s", float64(r.Records)/b.CPUSeconds)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%-12s %.2f CPU-s\n", "client", r.ClientCPUSeconds)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}
