// Package batch reads, checks, builds and patches record batches of Kafka's
// format v2 (KIP-98), and reads the message sets of formats v0 and v1 that old
// segments may still hold.
//
// A Batch is a slice of somebody else's bytes: a request frame, a segment, a
// buffer under construction. Nothing is copied unless a function says so. A
// Batch value is safe for concurrent reading; the Set methods are not.
//
// Layout of a v2 batch, big endian:
//
//	 0 base offset          int64
//	 8 length               int32   bytes that follow this field
//	12 partition leader epoch int32
//	16 magic                int8    2
//	17 crc                  uint32  CRC-32C of everything from 21 on
//	21 attributes           int16   codec(3) timestamp type(1) transactional(1) control(1) delete horizon(1)
//	23 last offset delta    int32
//	27 base timestamp       int64
//	35 max timestamp        int64
//	43 producer id          int64
//	51 producer epoch       int16
//	53 base sequence        int32
//	57 record count         int32
//	61 records
package batch
