// Package group is the coordinator of groups: one Coordinator for each partition
// of __consumer_offsets. It serves classic groups (JoinGroup and its family) and
// committed offsets; records of the other kinds of groups it keeps.
//
// A Coordinator is a coordinator.Core: pure, deterministic, called from one
// goroutine at a time. What the log holds of a group (its last stable
// generation, its offsets) changes by Replay only; members that join or sync,
// sessions and timers are soft and are lost with the coordinator, as in Kafka
// (GroupMetadataManager, ClassicGroup, OffsetMetadataManager).
//
// Invariants: in one generation of a group every member gets the assignment of
// that generation's leader or none; generations rise while a coordinator lives;
// after a failed append the state is that of the log again.
package group
