package interop

// knownDifferences lists where moldau answers otherwise than Apache Kafka 4.4,
// and why. An entry that no longer shows fails the test.
func knownDifferences() []difference {
	return []difference{
		{name: "first sequence of a new log", field: ".", why: "a log that never held a record takes only sequence 0, or a batch that was overtaken is lost (KAFKA-15591, fixed in Kafka after 4.4)"},
		{name: "alter unknown operation", field: "ErrorCode", why: "Kafka answers UNKNOWN_SERVER_ERROR, we INVALID_REQUEST"},
		{name: "unknown codec|codec that lies", field: "ErrorCode", why: "Kafka's exception ends as UNKNOWN_SERVER_ERROR, which clients retry without end; we say INVALID_RECORD"},
		{name: "Produce unknown codec", field: "LogStartOffset", why: "below version 7 Kafka fails before it has a log"},
		{name: "Metadata by zero id", field: "ErrorCode|Topic$", why: "Kafka fails with UNKNOWN_SERVER_ERROR, we say INVALID_REQUEST"},
		{name: "Fetch limit 200", field: "RecordBatches", why: "Kafka sends the torn beginning of the batch that does not fit, which clients throw away; we send whole batches"},
		{name: "Produce transactional", field: "Error(Code|Message)", why: "Kafka answers NOT_ENOUGH_REPLICAS until its coordinator is there, which clients retry; there is none here, and INVALID_TXN_STATE says so"},
	}
}
