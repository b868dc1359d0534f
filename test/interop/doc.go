// Package interop is the black-box suite: it runs the built binary and proves
// that Kafka's clients and tools, and Apache Kafka itself, cannot tell it from
// Apache Kafka 4.4.
//
//	go test ./...                 everything, some minutes on two cores
//	go test -short ./...          without the JVM and what Python, npm and franz-go's tests need
//
// The environment variable MOLDAU names the binary; unset, it is built. Apache
// Kafka comes from ../kafka. Every test starts its own node on free ports in its
// own folder, ends it with SIGTERM and fails if its log tells of an error. At most
// two JVMs run at a time.
package interop
