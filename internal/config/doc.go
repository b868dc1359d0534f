// Package config is the one table of Apache Kafka's broker, topic and group
// settings — name, type, default, accepted values, whether it can change at
// run time — and what follows from them: reading server.properties, the typed
// Server and Topic settings that the rest of the program uses, and the entries,
// sources and synonyms that DescribeConfigs answers with.
//
// Everything here is a value or a pure function; files are read by the caller.
// The tables are never modified. All functions are safe for concurrent use.
package config
