// Package kafka is the vocabulary that every other package speaks: offsets,
// epochs, ids, endpoints, error codes, the two clocks, and Java's string hash.
//
// It holds values only. It imports nothing of this module, performs no I/O and
// keeps no state; every function is safe for concurrent use. Types that must
// not be swapped are distinct: an Offset is not an Epoch, a TopicID is not a
// DirectoryID.
package kafka
