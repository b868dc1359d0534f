// Package handler answers requests: one file per API, and two tables that say
// which APIs a listener of brokers or of controllers offers and in which
// versions.
//
// A Handler has no state of its own besides the cache of fetch sessions and
// memory kept for reuse. It reads the newest committed image, goes to the
// partitions itself, and passes what changes the metadata to the active
// controller. Serve runs on the goroutine of the connection; answers that must
// wait come from goroutines made for them. Safe for concurrent use.
//
// A request that cannot be decoded, or has a version that the table does not
// have, closes its connection: no error could be encoded that the client would
// understand. ApiVersions alone answers unknown versions (KIP-511).
package handler
