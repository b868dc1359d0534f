// Package wire is the shape of Kafka's protocol as this program handles it:
// the header of a request, a request as it travels from the network to its
// handler, a response made of chunks (bytes in memory or ranges of files), and
// hand-written codecs for Produce and Fetch, whose record bytes must not be
// copied. All other bodies go through kmsg.
//
// Decoders check every length against the bytes that are there; a malformed
// frame gives ErrMalformed and costs no more memory than the frame itself.
// Values are for one goroutine at a time unless they say otherwise.
package wire
