// Package bench measures a Kafka cluster from the outside, and this machine
// without one. It is the library behind "moldau bench" and the comparison with
// Apache Kafka.
//
// Produce, Consume and Latency drive any Kafka address through franz-go and
// return a Result: throughput, an HDR latency table, and, for a broker on this
// machine whose process id is known, the CPU it spent per gigabyte of payload
// and its memory. Floor measures what the same bytes cost with no broker at
// all: socket to file and file to socket.
//
// Rules of measurement:
//   - Sizes are decimal (MB = 1e6, GB = 1e9) in rates and results; KiB and MiB
//     are binary. Payload bytes are record values, without framing.
//   - Open loop runs are free of coordinated omission: the schedule fixes when
//     each record should be sent, and latency counts from that moment, however
//     late the client or the broker is.
//   - CPU is user plus system time of all threads of the process, kernel threads
//     (writeback) not included.
//
// Concurrency: every exported function may be called from any goroutine; one
// call is one measurement and owns the clients it opens. Nothing is kept
// between calls.
package bench
